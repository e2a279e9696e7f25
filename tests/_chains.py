"""All that an error carries away: its words, and whatever hangs on it."""

import pickle
import traceback


def carried(error: BaseException) -> str:
    """Give every text of an error and of all that it hangs on, as one text.

    That is what `print`, a log, a pickle and the traceback that a worker sends hold,
    also where they ignore that a context is suppressed.
    """
    found, waiting, seen = [], [error], set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        found += [str(item), repr(item)]
        if isinstance(item, BaseException):
            # Not the frames: the table is in them while the process lives.
            trace = traceback.TracebackException.from_exception(item)
            found += [*trace.format_exception_only(), *trace.stack.format()]
            waiting += [item.args, vars(item), item.__context__, item.__cause__]
            waiting += getattr(item, "exceptions", ())  # of a group
            found.append(repr(pickle.dumps(item.args)))
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            waiting += item
    return "\n".join([*found, repr(pickle.dumps(error))])
