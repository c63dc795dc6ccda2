"""The frame of our Python client checks: run each, count, end with `NAME: N passed, M failed`."""
import sys
import traceback


def same(got, wanted, what=""):
    """An assertion that says both sides."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def refused(start, call, *words, **more):
    """The call must fail with an error whose text starts so."""
    try:
        got = call(*words, **more)
    except Exception as error:  # whatever class the client gives it, the text is what counts
        if not str(error).startswith(start):
            raise AssertionError(f"refused with {error!r}, wanted {start!r}") from error
        return
    raise AssertionError(f"not refused: {got!r}, wanted {start!r}")


def run(name, checks):
    """Runs all checks, in order, whatever fails. Ends the program."""
    failed = 0
    for check in checks:
        try:
            check()
            print(f"ok   {name}/{check.__name__}")
        except Exception:
            failed += 1
            print(f"FAIL {name}/{check.__name__}")
            traceback.print_exc(limit=4, file=sys.stdout)
    print(f"{name}: {len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
