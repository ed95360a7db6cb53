"""A shop that sends its mails later: a view enqueues a mail, and `run_worker` in another process sends it."""

import logging
import os
import signal
import threading

import flask
import psycopg
from psycopg.types.json import Jsonb

app = flask.Flask(__name__)
TABLE = """CREATE TABLE mails (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mail jsonb NOT NULL, enqueued_at timestamptz NOT NULL DEFAULT now())"""


def connect():
    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


def enqueue(mails):
    with connect() as connection, connection.transaction():
        connection.cursor().executemany("INSERT INTO mails (mail) VALUES (%s)", [(Jsonb(mail),) for mail in mails])


@app.post("/mails")
def post_mail():
    enqueue([flask.request.get_json()])
    return "", 202


def send(mail):
    print("sending", mail)


def send_next(connection):
    """Send the oldest mail, and delete it in the same transaction. Returns the mail; none if there is no mail."""
    with connection.transaction():
        claim = "SELECT id, mail FROM mails ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        mail_id, mail = connection.execute(claim).fetchone() or (None, None)
        if mail is not None:
            send(mail)
            connection.execute("DELETE FROM mails WHERE id = %s", [mail_id])
    return mail


def run_worker():
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while not stop.is_set():
        try:
            with connect() as connection:
                while not stop.is_set():
                    if send_next(connection) is None:
                        stop.wait(0.5)
        except Exception:
            logging.exception("the worker tries again")
            stop.wait(1)
