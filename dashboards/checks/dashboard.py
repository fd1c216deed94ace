"""Walking over a dashboard's JSON."""


def panels(dashboard):
    """All panels that show something: rows are opened."""
    for panel in dashboard.get("panels", []):
        if panel.get("type") == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def variables(dashboard):
    return {variable["name"]: variable for variable in dashboard.get("templating", {}).get("list", [])}


def name(dashboard, panel):
    return f"{dashboard.get('uid')}: {panel.get('title')!r}"


def substituted(text, values):
    """The text with its variables replaced, ${name}, ${name:format} and $name, longest first."""
    for variable in sorted(values, key=len, reverse=True):
        value = values[variable]
        for form in (f"${{{variable}}}", f"${{{variable}:regex}}", f"${variable}"):
            text = text.replace(form, value)
    return text
