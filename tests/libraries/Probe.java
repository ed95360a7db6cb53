import java.net.URI;
import stallbench.Batches;
import stallbench.Messages;
import stallbench.Recorder;

/** An adapter whose library executes each job that it is handed at once: it shows the contract module alone. */
public final class Probe {
  public static void main(String[] arguments) throws Exception {
    Recorder recorder = new Recorder(Messages.readDocument());
    recorder.ready();
    Batches.serve(
        jobs -> {
          if (jobs.get(0).payload().equals("full")) throw new Batches.JobsRefused("the queue is full");
          if (jobs.get(0).payload().startsWith("http:")) URI.create(jobs.get(0).payload()).toURL().openStream().close();
          jobs.forEach(
              job -> {
                recorder.work(job, "1");
                recorder.write("completed", job.n(), "1", "");
              });
        });
  }
}
