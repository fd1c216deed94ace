#!/usr/bin/env python3
"""Prints what Alertmanager sends to a webhook, a line for each alert: print_messages.py PORT"""
import http.server
import json
import sys


def lines(path, message):
    """Of a message of Alertmanager: who hears it, what, and why."""
    for alert in message["alerts"]:
        labels = alert["labels"]
        about = " ".join(f"{name}={labels[name]}" for name in ("instance", "namespace", "pod", "comm", "function")
                         if name in labels)
        yield (f"to {path.strip('/')}: {alert['status']}: {labels['alertname']} ({labels.get('severity', '-')}) {about}\n"
               f"    {alert.get('annotations', {}).get('description', '')}")


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            print("\n".join(lines(self.path, json.loads(body))))
        except (ValueError, KeyError, TypeError) as error:
            print(f"not a message of Alertmanager: {error!r}", file=sys.stderr)
            self.send_error(400)
            return
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
