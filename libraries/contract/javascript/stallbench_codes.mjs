// The answer to a batch, with the code of its error if it was not enqueued. Node's own modules only, like stallbench_contract.mjs.

import { JobsRefused } from "./stallbench_faults.mjs";

/** Errors of node-postgres for a connection that has ended; they have neither a code nor a class of their own. */
const OF_CONNECTION = /^(Connection terminated|Client has encountered a connection error|Client was closed)/;

/** Node's own codes for errors of a system call, like ECONNREFUSED, which drivers let pass. */
const OF_NETWORK = /^E[A-Z]+$/;

/** Names of errors of Axios, Got and node-fetch, which keep Node's code. */
const OF_WEB_CLIENTS = /^(AxiosError|FetchError|RequestError|TimeoutError)$/;

/** Returns the answer to a batch, or to a migration: ok, or why its promise was rejected; `port` is the database's. */
export function answerTo(call, port) {
  return call.then(() => ({ ok: true }), (error) => {
    if (error instanceof JobsRefused) return { refused: error.message };
    return { error: codeOf(error, port), message: String(error.message).replaceAll(/\s+/g, " ") };
  });
}

/** Returns the error's code, or else its name. The code is preceded by "node" if the error is one of the network, but of a call of the application. */
function codeOf(error, port) {
  const code = error.code ?? (OF_CONNECTION.test(error.message) ? "08006" : error.name);
  return OF_NETWORK.test(code) && isOfApplication(error, port) ? `node.${code}` : code;
}

/** Whether an error of the network is known to be of one of the application's own calls: by its client, Node's text of an HTTP server that ends, or the port. */
function isOfApplication(error, port) {
  const ports = [error, ...(error.errors ?? [])].map((each) => each.port).filter((each) => each !== undefined);
  return OF_WEB_CLIENTS.test(error.name) || error.message === "socket hang up" || (ports.length > 0 && !ports.includes(port));
}
