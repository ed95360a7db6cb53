package stallbench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
  private final String seed;
  private final Map<String, Integer> counts = new ConcurrentHashMap<>();
  private final Set<String> told = ConcurrentHashMap.newKeySet();

  private record Fault(String name, Document content) {}

  Faults(Document document) {
    worker = document.text("name");
    workS = document.number("work_s", 0);
    folder = document.text("job_faults") == null ? null : Path.of(document.text("job_faults"));
    seed = "%.0f".formatted(document.number("seed", 1));
  }

  /** Carries out those that affect a job; returns the seconds that its work takes. */
  double meet(long number, String payload) {
    try {
      List<Fault> met = active().stream().filter(fault -> affects(fault, payload)).toList();
      for (Fault fault : met) {
        if (told.add(fault.name)) {
          Messages.tell(Map.of("met", fault.name));
        }
      }
      for (Fault fault : met) {
        if (fault.content.is("kills")) {
          kill(fault.name, number);
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

  private boolean affects(Fault each, String payload) {
    Document fault = each.content;
    boolean affectsJobs = fault.is("kills") || fault.is("fails") || fault.number("takes_s", -1) >= 0;
    boolean isHere = fault.text("on").equals("workers") || (worker + "-").startsWith(fault.text("on") + "-");
    if (!affectsJobs || !isHere) {
      return false;
    }
    String mark = fault.text("mark");
    if (mark != null && !mark.equals(Document.parse(payload).text("mark"))) {
      return false;
    }
    double share = fault.number("share", 1);
    return share >= 1 || draw(seed + " " + each.name, counts.merge(each.name, 1, Integer::sum), share);
  }

  /** Says whether the nth draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256. */
  private static boolean draw(String seed, int nth, double share) {
    try {
      byte[] sum = MessageDigest.getInstance("SHA-256").digest((seed + " " + nth).getBytes(StandardCharsets.UTF_8));
      return Integer.toUnsignedLong(ByteBuffer.wrap(sum).getInt()) < share * 0x1p32;
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // every Java has it
    }
  }

  /** Ends this process at once, as a crash does, if the fault has not ended meanwhile. */
  private void kill(String name, long number) throws IOException, InterruptedException {
    Path announcement = folder.resolve(name + "." + worker + ".killed");
    Files.writeString(announcement, String.valueOf(number));
    if (Files.exists(folder.resolve(name + SUFFIX))) {
      // Java cannot send itself a signal.
      new ProcessBuilder("/bin/sh", "-c", "kill -KILL " + ProcessHandle.current().pid()).start().waitFor();
    } else {
      Files.deleteIfExists(announcement);
    }
  }
}
