package stallbench;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Draws the jobs, and the passages of a crash point, that a fault affects: each fault counts for itself. */
final class Draws {
  private final Map<String, Integer> counts = new ConcurrentHashMap<>();

  /** Returns how often it was called for a job fault. */
  int count(String name) {
    return counts.merge(name, 1, Integer::sum);
  }

  /** Says whether the nth draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256. */
  static boolean draw(String seed, int nth, double share) {
    try {
      byte[] sum = MessageDigest.getInstance("SHA-256").digest((seed + " " + nth).getBytes(StandardCharsets.UTF_8));
      return Integer.toUnsignedLong(ByteBuffer.wrap(sum).getInt()) < share * 0x1p32;
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // every Java has it
    }
  }
}
