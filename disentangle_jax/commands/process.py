"""What a process does about its output, signals and errors."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import IO, Any


class Output:
    """A text stream that is dropped where nobody can read it any more.

    Without it, ``disentangle … | head -1``, a closed terminal or a full disk behind a
    log file would end the training.
    """

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def _drop(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())  # Takes what the stream still holds.
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def set_up() -> None:
    """Prepares this process for a command: its output and Ctrl-C.

    Ctrl-C ends it at once, without a traceback, except where :func:`exit_code` or
    training handles it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    protect_output()


def protect_output() -> None:
    """Lets no write to the standard streams end this process.

    Characters that the terminal does not have are replaced. Parallel writes that end
    after a failed checkpoint, which is reported itself, say nothing.
    """
    sys.excepthook = _report
    sys.unraisablehook = _report_unraisable
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # Closed before the start.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (until the end)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
            setattr(sys, name, Output(stream))


_LATE_WRITE = "Event loop is closed"


def _report(kind: type, error: BaseException, trace: Any) -> None:
    if str(error) != _LATE_WRITE:
        sys.__excepthook__(kind, error, trace)


def _report_unraisable(found: "sys.UnraisableHookArgs") -> None:
    if str(found.exc_value) != _LATE_WRITE:
        sys.__unraisablehook__(found)


def exit_code(work: Callable[[], int]) -> int:
    """Runs `work` and returns its exit code; reports failures in one line.

    Errors of a kind that is not listed here are errors of the library: they keep their
    traceback.
    """
    from disentangle_jax import training

    try:
        with training.stop_on_signals():
            return work()
    except training.Interrupted as stopped:
        print(f"{stopped}; everything is saved. The same command continues from there.")
        return stopped.exit_code
    except KeyboardInterrupt:
        print("stopped; what was written is whole. The same command continues.")
        return 130
    except (training.TooLarge, training.InUse) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        line = system_failure(error)
        if isinstance(error, ValueError | FloatingPointError | OSError):
            line = line or str(error).partition("\n")[0]
        if not line:
            raise
        print(f"error: {line}", file=sys.stderr)
        return 1


def system_failure(error: Exception) -> str | None:
    """Returns a line about a full disk, too many files, too little memory; or None."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    if _caused_by(error, (errno.ENOSPC, errno.EDQUOT), "No space left on device"):
        return f"the disk is full; free some space and run the same command ({text})"
    if _caused_by(error, (errno.EMFILE, errno.ENFILE), "Too many open files"):
        return f"too many open files; raise the limit with `ulimit -n` ({text})"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return (
            "out of memory; lower `train.batch_size` or `lanes.chunk`, or use a larger "
            f"machine ({text})"
        )
    return None


def _caused_by(
    error: BaseException | None, numbers: tuple[int, ...], text: str
) -> bool:
    """Returns whether an error, or one that caused it, comes from the system."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers or text in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
