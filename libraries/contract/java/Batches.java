package stallbench;

import java.io.IOException;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import stallbench.Messages.Job;

/** The verb produce: hands each batch of the bench to the adapter, and answers it. */
public final class Batches {
  private Batches() {}

  /** The queue takes none of the batch's jobs, for example because it is full. */
  public static final class JobsRefused extends RuntimeException {
    public JobsRefused(String reason) {
      super(reason);
    }
  }

  /** Enqueues a batch; an exception becomes an answer. */
  public interface Enqueue {
    void enqueue(List<Job> jobs) throws Exception;
  }

  /** Enqueues the jobs of each batch that the bench sends, and answers ok, refused, or the error's code and message. */
  public static void serve(Enqueue adapter) throws IOException {
    Messages.send(Map.of("ready", Map.of()));
    for (String line = Messages.readLine(); line != null; line = Messages.readLine()) {
      try {
        adapter.enqueue(readJobs(line));
        Messages.send(Map.of("ok", true));
      } catch (JobsRefused refusal) {
        Messages.send(Map.of("refused", refusal.getMessage()));
      } catch (Exception error) {
        Messages.send(Map.of("error", code(error), "message", String.valueOf(error.getMessage()).replaceAll("\\s+", " ")));
      }
    }
  }

  private static List<Job> readJobs(String line) {
    List<Job> jobs = new ArrayList<>();
    for (Object each : (List<?>) ((Map<?, ?>) Json.parse(line)).get("jobs")) {
      Map<?, ?> job = (Map<?, ?>) each;
      jobs.add(new Job((Long) job.get("n"), (Long) job.get("sum"), (String) job.get("payload")));
    }
    return jobs;
  }

  /** Returns the server's code: the number of MariaDB and MySQL if there is one, or the SQLSTATE; else the error's class. */
  private static String code(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof SQLException ofServer && ofServer.getErrorCode() != 0) {
        return String.valueOf(ofServer.getErrorCode());
      }
      if (cause instanceof SQLException ofServer && ofServer.getSQLState() != null) {
        return ofServer.getSQLState();
      }
    }
    return error.getClass().getSimpleName();
  }
}
