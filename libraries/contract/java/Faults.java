package stallbench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import stallbench.Messages.Document;
import stallbench.Messages.JobFailed;

/** Carries out job faults, as stallbench.injection.job_faults describes them. */
final class Faults {
  private static final String SUFFIX = ".json";

  private final String worker;
  private final double workS;
  private final Path folder;
  private final Random random;
  private final Set<String> told = ConcurrentHashMap.newKeySet();

  private record Fault(String name, Document content) {}

  Faults(Document document) {
    worker = document.text("name");
    workS = document.number("work_s", 0);
    folder = document.text("job_faults") == null ? null : Path.of(document.text("job_faults"));
    random = new Random((long) document.number("seed", 1));
  }

  /** Carries out those that affect a job; returns the seconds that its work takes. */
  double meet(String payload) {
    try {
      List<Fault> met = active().stream().filter(fault -> affects(fault.content, payload)).toList();
      for (Fault fault : met) {
        if (told.add(fault.name)) {
          Messages.tell(Map.of("met", fault.name));
        }
      }
      for (Fault fault : met) {
        if (fault.content.is("kills")) {
          kill(fault.name);
        }
      }
      List<String> failing = met.stream().filter(fault -> fault.content.is("fails")).map(Fault::name).toList();
      if (!failing.isEmpty()) {
        throw new JobFailed("a dependency of the job is unavailable (" + String.join(", ", failing) + ")");
      }
      return met.stream().mapToDouble(fault -> fault.content.number("takes_s", -1)).filter(s -> s >= 0).max().orElse(workS);
    } catch (IOException | InterruptedException error) {
      throw new JobFailed(error.toString());
    }
  }

  private List<Fault> active() throws IOException {
    List<Fault> found = new ArrayList<>();
    if (folder == null || !Files.isDirectory(folder)) {
      return found;
    }
    try (Stream<Path> paths = Files.list(folder)) {
      for (Path path : paths.filter(each -> each.toString().endsWith(SUFFIX)).sorted().toList()) {
        String file = path.getFileName().toString();
        found.add(new Fault(file.substring(0, file.length() - SUFFIX.length()), Document.parse(Files.readString(path))));
      }
    } catch (NoSuchFileException error) {
      return active(); // one ended just now
    }
    return found;
  }

  private boolean affects(Document fault, String payload) {
    boolean affectsJobs = fault.is("kills") || fault.is("fails") || fault.number("takes_s", -1) >= 0;
    boolean isHere = fault.text("on").equals("workers") || (worker + "-").startsWith(fault.text("on") + "-");
    if (!affectsJobs || !isHere) {
      return false;
    }
    String mark = fault.text("mark");
    if (mark != null && !mark.equals(Document.parse(payload).text("mark"))) {
      return false;
    }
    return fault.number("share", 1) >= 1 || random.nextDouble() < fault.number("share", 1);
  }

  /** Ends this process at once, as a crash does, if the fault has not ended meanwhile. */
  private void kill(String name) throws IOException, InterruptedException {
    Path announcement = folder.resolve(name + "." + worker + ".killed");
    Files.write(announcement, new byte[0]);
    if (Files.exists(folder.resolve(name + SUFFIX))) {
      // Java cannot send itself a signal.
      new ProcessBuilder("/bin/sh", "-c", "kill -KILL " + ProcessHandle.current().pid()).start().waitFor();
    } else {
      Files.deleteIfExists(announcement);
    }
  }
}
