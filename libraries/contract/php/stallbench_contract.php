<?php

// stallbench's contract with an adapter in PHP: reads the document, records jobs, carries out job faults, answers batches.
// PHP's own modules only. docs/add-a-library.md describes the contract.

namespace Stallbench;

/** Returns the document: the first line of standard input. */
function readDocument(): array {
    return json_decode(fgets(STDIN), true, flags: JSON_THROW_ON_ERROR);
}

/** Sends the bench a message: one JSON object on one line of standard output. */
function tell(array $message): void {
    fwrite(STDOUT, json_encode($message, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
}

/** Returns the code of a database's error: the server's number on MariaDB and MySQL, an SQLSTATE on PostgreSQL, or else the error's class. */
function codeOf(\Throwable $error): string {
    [$sqlstate, $number] = ($error->errorInfo ?? []) + ['', 0];
    return strval($number > 1000 ? $number : ($sqlstate ?: basename(str_replace('\\', '/', $error::class))));
}

/** The job fails, as after an error in the application's code. */
class JobFailed extends \RuntimeException {}

/** Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns. */
class Recorder {
    private $log;
    private bool $waits;
    private array $met = [];

    public function __construct(private array $document) {
        $this->log = fopen($document['events'], 'a');
        stream_set_write_buffer($this->log, 0);
        mt_srand($document['seed'] ?? 1);
        $this->waits = $document['wait_for_go'] ?? false;
        if ($this->waits) pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1]);
    }

    /** Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together. */
    public function ready(): void {
        tell(['ready' => (object) []]);
        if ($this->waits && pcntl_sigwaitinfo([SIGUSR1, SIGTERM]) === SIGTERM) exit(0);
    }

    /** Appends an event of `stallbench.records.events`. */
    public function write(string $event, int|string $job = '', int|string $attempt = '', string $detail = ''): void {
        $text = trim(preg_replace('/\s+/', ' ', str_replace(',', ';', $detail)));
        $wall_ns = sprintf('%.0f', microtime(true) * 1e6) . '000';
        $line = implode(',', [$wall_ns, hrtime(true), $this->document['name'], $event, $job, $attempt, '', '', $text]) . "\n";
        if (fwrite($this->log, $line) !== strlen($line)) throw new \RuntimeException('a record was not written whole; is the disk full?');
    }

    /** Executes a job: records that its handler starts, does its work, records the end. */
    public function work(array $job, int|string $attempt = ''): void {
        ['n' => $n, 'sum' => $sum, 'payload' => $payload] = $job;
        if (crc32("$n:$payload") !== $sum) {
            $this->write('error', $n, $attempt, 'DamagedArguments in claim: they do not match their checksum');
            throw new JobFailed("the arguments of job $n are damaged");
        }
        $this->write('claimed', $n, $attempt);
        $until_ns = hrtime(true) + 1e9 * $this->meetFaults($payload);
        while (($left_ns = $until_ns - hrtime(true)) > 0) { // a signal interrupts a sleep
            usleep((int) ceil($left_ns / 1e3));
        }
        $this->write('worked', $n, $attempt);
    }

    /** Carries out the job faults that affect this job; returns the seconds that its work takes. */
    private function meetFaults(string $payload): float {
        $met = array_filter($this->activeFaults(), fn ($fault) => $this->meets($payload, $fault));
        foreach (array_diff(array_keys($met), $this->met) as $name) {
            tell(['met' => $this->met[] = $name]);
        }
        foreach (array_keys(array_filter($met, fn ($fault) => $fault['kills'])) as $name) {
            $this->announceKill($name) && posix_kill(getmypid(), SIGKILL);
        }
        $failing = implode(', ', array_keys(array_filter($met, fn ($fault) => $fault['fails'])));
        if ($failing) throw new JobFailed("a dependency of the job is unavailable ($failing)");
        $lasting = array_filter(array_column($met, 'takes_s'), fn ($takes_s) => $takes_s !== null);
        return $lasting ? max($lasting) : $this->document['work_s'] ?? 0;
    }

    private function activeFaults(): array {
        $active = [];
        foreach (glob(($this->document['job_faults'] ?? '') . '/*.json') as $path) {
            $fault = json_decode(@file_get_contents($path) ?: '{"on": "-"}', true); // it may have ended just now
            if ($fault['on'] === 'workers' || str_starts_with($this->document['name'] . '-', $fault['on'] . '-')) {
                $active[basename($path, '.json')] = $fault;
            }
        }
        return $active;
    }

    private function meets(string $payload, array $fault): bool {
        $affects = $fault['kills'] || $fault['fails'] || $fault['takes_s'] !== null;
        $is_marked = $fault['mark'] === null || (json_decode($payload, true)['mark'] ?? null) === $fault['mark'];
        return $affects && $is_marked && ($fault['share'] >= 1 || mt_rand() / mt_getrandmax() < $fault['share']);
    }

    private function announceKill(string $name): bool {
        touch($announcement = "{$this->document['job_faults']}/$name.{$this->document['name']}.killed");
        clearstatcache();
        return file_exists("{$this->document['job_faults']}/$name.json") || !unlink($announcement);
    }
}

/** Calls `$enqueue` with the arguments of each batch that the bench sends, and answers ok, or the error's code and message. */
function serveBatches(callable $enqueue): void {
    tell(['ready' => (object) []]);
    while (($line = fgets(STDIN)) !== false) {
        try {
            $enqueue(json_decode($line, true, flags: JSON_THROW_ON_ERROR)['jobs']);
            tell(['ok' => true]);
        } catch (\Throwable $error) {
            tell(['error' => codeOf($error), 'message' => trim(preg_replace('/\s+/', ' ', $error->getMessage()))]);
        }
    }
}
