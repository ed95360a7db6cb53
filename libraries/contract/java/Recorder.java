package stallbench;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.zip.CRC32;
import stallbench.Messages.Document;
import stallbench.Messages.Job;
import stallbench.Messages.JobFailed;
import sun.misc.Signal;

/** Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns. */
public final class Recorder {
  private final String name;
  private final boolean waits;
  private final FileOutputStream log;
  private final Clock clock;
  private final Faults faults;
  private final Crashes crashes;
  private final CountDownLatch go = new CountDownLatch(1);

  /** Opens the event log that the document names. */
  public Recorder(Document document) throws IOException {
    name = document.text("name");
    waits = document.is("wait_for_go");
    log = new FileOutputStream(document.text("events"), true);
    Draws draws = new Draws();
    clock = new Clock(document);
    faults = new Faults(document, draws, clock);
    crashes = new Crashes(name, faults, draws);
    if (waits) {
      Signal.handle(new Signal("USR1"), signal -> go.countDown());
    }
  }

  /** Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together. */
  public void ready() throws InterruptedException {
    Messages.send(Map.of("ready", Map.of()));
    if (waits) {
      go.await();
    }
  }

  /** Appends an event of stallbench.records.events. */
  public void write(String event, long job, String attempt, String detail) {
    String text = String.valueOf(detail).replace(',', ';').replaceAll("\\s+", " ");
    String line = "%d,%d,%s,%s,%d,%s,,,%s\n".formatted(clock.read(), System.nanoTime(), name, event, job, attempt, text);
    try {
      log.write(line.getBytes(StandardCharsets.UTF_8));
    } catch (IOException error) {
      throw new UncheckedIOException("a record was not written; is the disk full?", error);
    }
    if (event.equals("completed")) {
      crashes.pass("after_completion_acknowledged", job);
    }
  }

  /** Executes a job: records that its handler starts, does its work, records the end. */
  public void work(Job job, String attempt) {
    CRC32 sum = new CRC32();
    sum.update((job.n() + ":" + job.payload()).getBytes(StandardCharsets.UTF_8));
    if (sum.getValue() != job.sum()) {
      write("error", job.n(), attempt, "DamagedArguments in claim: they do not match their checksum");
      throw new JobFailed("the arguments of job " + job.n() + " are damaged");
    }
    write("claimed", job.n(), attempt, "");
    crashes.pass("after_claim", job.n());
    double takesS = faults.meet(job.n(), job.payload());
    if (crashes.areAt("during_work")) {
      takesS /= 2;
      pause(takesS);
      crashes.pass("during_work", job.n());
    }
    pause(takesS);
    write("worked", job.n(), attempt, "");
    crashes.pass("before_completion", job.n());
  }

  private static void pause(double durationS) {
    try {
      Thread.sleep(Math.round(1000 * durationS));
    } catch (InterruptedException error) {
      throw new JobFailed("interrupted");
    }
  }
}
