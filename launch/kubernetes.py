"""Kubernetes manifests that run the packs of a sweep.

A manifest is an Indexed Job, or a JobSet on TPUs, written as JSON, which
``kubectl apply -f`` accepts.
"""

import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from disentangle_jax import files
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.types import unknown_name

# GKE's node labels, and the chips of the largest slice with a single host.
_ACCELERATORS = {
    "v4": ("tpu-v4-podslice", 4),
    "v5e": ("tpu-v5-lite-podslice", 8),
    "v5p": ("tpu-v5p-slice", 4),
    "v6e": ("tpu-v6e-slice", 8),
}
_MOUNT = "/sweep"
# Number of times that a pack is retried. Evictions do not count.
_RETRIES = 3
_EVICTIONS_DO_NOT_COUNT = {
    "rules": [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]
}


def write(
    sweep: sweep_lib.Sweep,
    packs: Sequence[int],
    *,
    image: str,
    volume: str,
    parallelism: int,
    gpus: int = 0,
    cpus: int = 1,
    memory_gb: float | None = None,
    tpu: str | None = None,
    time_limit: int | None = None,
) -> pathlib.Path:
    """Writes the manifest that runs some packs, and returns its path.

    Args:
      sweep: the sweep. Its folder must be the root of the volume.
      packs: numbers of the packs; each gets one pod.
      image: container image with this package installed.
      volume: name of the PersistentVolumeClaim (ReadWriteMany) that holds the sweep.
      parallelism: maximal number of pods of an Indexed Job at a time. A JobSet starts
        all pods, which the cluster queues.
      gpus: number of GPUs per pod.
      cpus: number of CPUs per pod.
      memory_gb: memory per pod.
      tpu: generation and slice of one host, e.g. ``"v5e:2x2"``; makes it a JobSet.
      time_limit: minutes per pod.
    """
    container = _container(image, packs, gpus, cpus, memory_gb)
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [
            {"name": "sweep", "persistentVolumeClaim": {"claimName": volume}},
        ],
    }
    if time_limit is not None:
        pod["activeDeadlineSeconds"] = 60 * time_limit
    name = f"sweep-{sweep.workdir.absolute().name}".lower().replace("_", "-")
    if tpu is None:
        manifest = _indexed_job(name, pod, len(packs), parallelism)
        path = sweep.workdir / "k8s" / "job.json"
    else:
        manifest = _job_set(name, pod, len(packs), tpu)
        path = sweep.workdir / "k8s" / "jobset.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, json.dumps(manifest, indent=2) + "\n")
    return path


def _container(
    image: str, packs: Sequence[int], gpus: int, cpus: int, memory_gb: float | None
) -> dict[str, Any]:
    requests = {"cpu": str(cpus)}
    if memory_gb is not None:
        requests["memory"] = f"{memory_gb:g}Gi"
    resources: dict[str, Any] = {"requests": requests}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
    return {
        "name": "pack",
        "image": image,
        "command": ["python", "-m", "disentangle_jax", "sweep", "run"],
        "args": [
            f"--workdir={_MOUNT}",
            f"--packs={','.join(map(str, packs))}",
            "--index_from=JOB_COMPLETION_INDEX",
        ],
        "resources": resources,
        "volumeMounts": [{"name": "sweep", "mountPath": _MOUNT}],
    }


def _indexed_job(
    name: str, pod: dict[str, Any], count: int, parallelism: int
) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": min(parallelism, count),
            "backoffLimitPerIndex": _RETRIES,
            "maxFailedIndexes": count,
            # One pod per index at a time: it continues from the last checkpoint.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _EVICTIONS_DO_NOT_COUNT,
            "template": {"spec": pod},
        },
    }


def _job_set(name: str, pod: dict[str, Any], count: int, tpu: str) -> dict[str, Any]:
    generation, _, topology = tpu.partition(":")
    if generation not in _ACCELERATORS:
        raise unknown_name("--tpu", "generation", generation, _ACCELERATORS)
    accelerator, most = _ACCELERATORS[generation]
    sizes = topology.split("x")
    if not all(size.isdigit() for size in sizes):
        raise ValueError(f"--tpu: must be like v5e:2x2, got {tpu!r}.")
    chips = math.prod(map(int, sizes))
    if chips > most:
        raise ValueError(
            f"--tpu: a pack runs on one host, which has at most {most} chips of "
            f"{generation}; {topology} has {chips}. Packs share nothing: give each a "
            "smaller slice."
        )
    container = pod["containers"][0]
    container["args"][-1] = "--index_from=PACK_INDEX"
    container["env"] = [
        {
            "name": "PACK_INDEX",
            "valueFrom": {
                "fieldRef": {
                    "fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"
                }
            },
        }
    ]
    chips_text = {"google.com/tpu": str(chips)}
    resources = container["resources"]
    resources["limits"] = chips_text
    resources["requests"] = {**resources["requests"], **chips_text}
    pod["nodeSelector"] = {
        "cloud.google.com/gke-tpu-accelerator": accelerator,
        "cloud.google.com/gke-tpu-topology": topology,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            # A restart starts all Jobs again: finished packs end at once, and others
            # continue from their checkpoints.
            "failurePolicy": {"maxRestarts": _RETRIES},
            "replicatedJobs": [
                {
                    "name": "packs",
                    "replicas": count,
                    "template": {
                        "spec": {
                            "completions": 1,
                            "parallelism": 1,
                            "backoffLimit": _RETRIES,
                            "podReplacementPolicy": "Failed",
                            "podFailurePolicy": _EVICTIONS_DO_NOT_COUNT,
                            "template": {"spec": pod},
                        }
                    },
                }
            ],
        },
    }
