// An adapter whose library executes each job that it is handed at once: it shows the contract module alone.
import { once } from "node:events";
import http from "node:http";

import { JobsRefused, Recorder, readDocument, serveBatches } from "../../libraries/contract/javascript/stallbench_contract.mjs";

const recorder = new Recorder(await readDocument());
await recorder.ready();
await serveBatches(async (jobs) => {
  if (jobs[0].payload === "full") throw new JobsRefused("the queue is full");
  if (jobs[0].payload.startsWith("http:")) await once(http.get(jobs[0].payload), "response");
  for (const job of jobs) {
    await recorder.work(job, 1);
    recorder.write("completed", job.n, 1);
  }
});
