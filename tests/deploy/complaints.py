"""What a test has found wrong: it goes on, and says all of it at its end."""

complaints = []


def complain(text):
    complaints.append(text)


def same(what, found, expected):
    if found != expected:
        complain(f"{what}: {str(found)[:500]}, expected {str(expected)[:500]}")


def conclude(praise):
    """Prints the complaints, or the praise when there are none; the exit code."""
    print("\n".join(complaints) or praise)
    return 1 if complaints else 0
