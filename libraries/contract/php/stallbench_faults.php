<?php

// Job faults in an adapter in PHP: jobs that take longer, fail, or kill their worker, and crash points. stallbench_contract.php calls them.
// PHP's own modules only. `stallbench.injection.job_faults` describes the files.

namespace Stallbench;

/** Sends the bench a message: one JSON object on one line of standard output. */
function send(array $message): void {
    fwrite(STDOUT, json_encode($message, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
}

/** The job fails, as after an error in the application's code. */
class JobFailed extends \RuntimeException {}

/** The queue takes none of the batch's jobs, for example because it is full. */
class JobsRefused extends \RuntimeException {}

/** The signal and the announcement of what happens at a crash point. */
const CRASHES = ['kill' => [SIGKILL, 'killed'], 'pause' => [SIGSTOP, 'stopped']];

/** The job faults that a worker meets. */
class Faults {
    private string $name;
    private string $folder;
    private array $met = [];
    private array $counts = [];

    public function __construct(private array $document, private Clock $clock) {
        $this->name = $document['name'];
        $this->folder = $document['job_faults'] ?? '';
    }

    /** Carries out those that affect a job; returns the seconds that its work takes. */
    public function meet(int $number, string $payload): float {
        $met = array_filter($this->readActive(), fn ($fault, $name) => $this->affects($payload, $name, $fault), ARRAY_FILTER_USE_BOTH);
        foreach (array_diff(array_keys($met), $this->met) as $name) {
            send(['met' => $this->met[] = $name]);
        }
        foreach (array_keys(array_filter($met, fn ($fault) => $fault['kills'])) as $name) {
            $this->announce($name, 'killed', $number) && posix_kill(getmypid(), SIGKILL);
        }
        $failing = implode(', ', array_keys(array_filter($met, fn ($fault) => $fault['fails'])));
        if ($failing) throw new JobFailed("a dependency of the job is unavailable ($failing)");
        $lasting = array_filter(array_column($met, 'takes_s'), fn ($takes_s) => $takes_s !== null);
        return $lasting ? max($lasting) : $this->document['work_s'] ?? 0;
    }

    /** Is at a crash point with a job: the process may be killed, or stopped until the bench resumes it, before this returns. */
    public function pass(string $point, int $number): void {
        foreach ($this->readActive() as $name => $fault) {
            if (($fault['at'] ?? null) !== $point || !$this->isDue($name, $fault)) continue;
            [$signal, $announcement] = CRASHES[$fault['crash']];
            $this->announce($name, $announcement, $number) && posix_kill(getmypid(), $signal);
        }
    }

    /** Whether a crash at this point is active. */
    public function areAt(string $point): bool {
        return in_array($point, array_column($this->readActive(), 'at'), true);
    }

    /** Whether this passage of a crash point crashes: every n-th, or drawn by share. */
    private function isDue(string $name, array $fault): bool {
        $passage = $this->count($name);
        $nth = $fault['every_nth'];
        return $nth === null ? draw("{$fault['seed']} {$this->name}", $passage, $fault['share']) : $passage % $nth === 0;
    }

    /** Returns the content of each job fault that is active for this worker, by its name. */
    private function readActive(): array {
        $active = [];
        foreach ($this->folder ? glob("{$this->folder}/*.json") : [] as $path) {
            $fault = json_decode(@file_get_contents($path) ?: '{"on": "-"}', true); // it may have ended just now
            if ($fault['on'] === 'workers' || str_starts_with("{$this->name}-", "{$fault['on']}-")) {
                $active[basename($path, '.json')] = $fault;
            }
        }
        return $active;
    }

    /** Whether a job fault affects a job, by its mark and its share, or the clock of this process. */
    private function affects(string $payload, string $name, array $fault): bool {
        if ($fault['clock_offset_s']) return $this->clock->isOff();
        $affects = $fault['kills'] || $fault['fails'] || $fault['takes_s'] !== null;
        $is_marked = $fault['mark'] === null || (json_decode($payload, true)['mark'] ?? null) === $fault['mark'];
        $seed = ($this->document['seed'] ?? 1) . " $name";
        return $affects && $is_marked && ($fault['share'] >= 1 || draw($seed, $this->count($name), $fault['share']));
    }

    /** Returns how often this is asked for a job fault: 1 at the first time. */
    private function count(string $name): int {
        return $this->counts[$name] = ($this->counts[$name] ?? 0) + 1;
    }

    /** Announces that a job fault ends or stops this worker now; returns false if it has ended meanwhile. */
    private function announce(string $name, string $what, int $number): bool {
        file_put_contents($announcement = "{$this->folder}/$name.{$this->name}.$what", strval($number));
        clearstatcache();
        return file_exists("{$this->folder}/$name.json") || !unlink($announcement);
    }
}

/** Whether the nth draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256. */
function draw(string $seed, int $nth, float $share): bool {
    return hexdec(substr(hash('sha256', "$seed $nth"), 0, 8)) < $share * 2 ** 32;
}
