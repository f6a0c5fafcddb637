"""What Kubernetes takes, as JSON schemas: batch/v1 Job and jobset.x-k8s.io/v1alpha2.

The fields that a manifest of ours has or may have, with their types and constraints, as
the API reference states them (https://kubernetes.io/docs/reference/kubernetes-api and
https://jobset.sigs.k8s.io/docs/reference); all others are refused.
"""


def _closed(required, **properties):
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }


def _list(items, least=1):
    return {"type": "array", "minItems": least, "items": items}


_NAME = {
    "type": "string",
    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "maxLength": 63,
}
_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "integer", "minimum": 1}
_QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?$"}
_QUANTITIES = {
    "type": "object",
    "propertyNames": {"pattern": r"^([a-z0-9.-]+/)?[a-z0-9-]+$"},
    "additionalProperties": _QUANTITY,
}
_METADATA = _closed(["name"], name=_NAME, labels={"type": "object"})
_FIELD = _closed(["fieldPath"], fieldPath=_TEXT, apiVersion=_TEXT)
_ENV = _closed(
    ["name"],
    name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    value={"type": "string"},
    valueFrom=_closed(["fieldRef"], fieldRef=_FIELD),
)
_CONTAINER = _closed(
    ["name", "image"],
    name=_NAME,
    image=_TEXT,
    command=_list(_TEXT),
    args=_list(_TEXT),
    env=_list(_ENV),
    resources=_closed([], requests=_QUANTITIES, limits=_QUANTITIES),
    volumeMounts=_list(_closed(["name", "mountPath"], name=_NAME, mountPath=_TEXT)),
)
_VOLUME = _closed(
    ["name"],
    name=_NAME,
    persistentVolumeClaim=_closed(["claimName"], claimName=_NAME),
)
_POD = _closed(
    # Jobs take no other restart policies, and a pod failure policy needs "Never".
    ["containers", "restartPolicy"],
    restartPolicy={"enum": ["Never"]},
    containers=_list(_CONTAINER),
    volumes=_list(_VOLUME),
    nodeSelector={"type": "object", "additionalProperties": _TEXT},
    activeDeadlineSeconds=_POSITIVE,
)
_CONDITION = _closed(
    ["type", "status"], type=_TEXT, status={"enum": ["True", "False", "Unknown"]}
)
_RULE = _closed(
    ["action"],
    action={"enum": ["FailJob", "FailIndex", "Ignore", "Count"]},
    onPodConditions=_list(_CONDITION),
)
_JOB_SPEC = _closed(
    ["template"],
    completionMode={"enum": ["Indexed", "NonIndexed"]},
    completions=_COUNT,
    parallelism=_COUNT,
    backoffLimit=_COUNT,
    backoffLimitPerIndex=_COUNT,
    maxFailedIndexes={"type": "integer", "minimum": 0, "maximum": 100_000},
    podReplacementPolicy={"enum": ["TerminatingOrFailed", "Failed"]},
    podFailurePolicy=_closed(["rules"], rules=_list(_RULE)),
    template=_closed(["spec"], spec=_POD, metadata={"type": "object"}),
) | {
    # What is per index needs indices; a failure policy replaces failed pods only.
    "dependentRequired": {
        "backoffLimitPerIndex": ["completionMode", "completions"],
        "maxFailedIndexes": ["backoffLimitPerIndex"],
        "podFailurePolicy": ["podReplacementPolicy"],
    }
}
JOB = _closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "batch/v1"},
    kind={"const": "Job"},
    metadata=_METADATA,
    spec=_JOB_SPEC,
)
_REPLICATED = _closed(
    ["name", "template"],
    name=_NAME,
    replicas=_COUNT,
    template=_closed(["spec"], spec=_JOB_SPEC, metadata={"type": "object"}),
)
JOB_SET = _closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=_METADATA,
    spec=_closed(
        ["replicatedJobs"],
        replicatedJobs=_list(_REPLICATED),
        failurePolicy=_closed([], maxRestarts=_COUNT),
    ),
)
