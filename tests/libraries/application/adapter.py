"""Runs the shop's own worker under stallbench, and enqueues as the shop does."""

import os
import sys

import shop
from stallbench_contract import JobFailedError, Recorder, dsn, read_document, serve_batches

document = read_document()
os.environ["DATABASE_URL"] = dsn(document["endpoint"])
os.environ["PGAPPNAME"] = f"stallbench:{document['name']}"


def work():
    recorder, send_next = Recorder(document), shop.send_next

    def send(mail):
        try:
            recorder.work(mail)  # in place of sending it
        except JobFailedError as error:
            recorder.write("failed", mail["n"], detail=error)
            raise

    def send_next_and_record(connection):
        mail = send_next(connection)  # it has committed when it returns
        if mail is not None:
            recorder.write("completed", mail["n"])
        return mail

    shop.send, shop.send_next = send, send_next_and_record
    recorder.ready()
    shop.run_worker()


match sys.argv[1]:
    case "install":
        shop.connect().execute(shop.TABLE)
    case "produce":
        serve_batches(shop.enqueue)
    case "work":
        work()
