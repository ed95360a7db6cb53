<?php

// stallbench's contract with an adapter in PHP: reads the document, records jobs, answers batches.
// stallbench_faults.php carries out job faults. PHP's own modules only. docs/add-a-library.md describes the contract.

namespace Stallbench;

require_once __DIR__ . '/stallbench_clock.php';
require_once __DIR__ . '/stallbench_faults.php';

/** Returns the document: the first line of standard input. */
function readDocument(): array {
    return json_decode(fgets(STDIN), true, flags: JSON_THROW_ON_ERROR);
}

const FATAL_OF_LIBPQ = 7; // without an SQLSTATE: the server sent none, because the connection is gone

const CODES_OF_SQLITE = [5 => 'SQLITE_BUSY', 6 => 'SQLITE_LOCKED', 10 => 'SQLITE_IOERR', 13 => 'SQLITE_FULL'];

/** Returns the code of a database's error: the server's number on MariaDB and MySQL, SQLite's name, an SQLSTATE on PostgreSQL, or else the class. */
function codeOf(\Throwable $error): string {
    [$sqlstate, $number] = ($error->errorInfo ?? []) + ['', 0];
    if ($sqlstate === 'HY000' && isset(CODES_OF_SQLITE[$number])) {
        return CODES_OF_SQLITE[$number];
    }
    if ($sqlstate === 'HY000' && $number === FATAL_OF_LIBPQ) {
        return '08006';
    }
    return strval($number > 1000 ? $number : ($sqlstate ?: basename(str_replace('\\', '/', $error::class))));
}

/** Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns. */
class Recorder {
    private $log;
    private bool $waits;
    private Clock $clock;
    private Faults $faults;

    public function __construct(private array $document) {
        $this->log = fopen($document['events'], 'a');
        stream_set_write_buffer($this->log, 0);
        $this->clock = new Clock($document);
        $this->faults = new Faults($document, $this->clock);
        $this->waits = $document['wait_for_go'] ?? false;
        if ($this->waits) pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1]);
    }

    /** Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together. */
    public function ready(): void {
        if ($this->waits) pcntl_sigprocmask(SIG_BLOCK, [SIGTERM]);
        send(['ready' => (object) []]);
        if (!$this->waits) return;
        if (pcntl_sigwaitinfo([SIGUSR1, SIGTERM]) === SIGTERM) exit(0);
        pcntl_sigprocmask(SIG_UNBLOCK, [SIGTERM]);
    }

    /** Appends an event of `stallbench.records.events`. */
    public function write(string $event, int|string $job = '', int|string $attempt = '', string $detail = ''): void {
        $text = trim(preg_replace('/\s+/', ' ', str_replace(',', ';', $detail)));
        $line = implode(',', [$this->clock->read(), hrtime(true), $this->document['name'], $event, $job, $attempt, '', '', $text]) . "\n";
        if (fwrite($this->log, $line) !== strlen($line)) throw new \RuntimeException('a record was not written whole; is the disk full?');
        if ($event === 'completed') $this->faults->pass('after_completion_acknowledged', $job);
    }

    /** Executes a job: records that its handler starts, does its work, records the end. */
    public function work(array $job, int|string $attempt = ''): void {
        ['n' => $n, 'sum' => $sum, 'payload' => $payload] = $job;
        if (crc32("$n:$payload") !== $sum) {
            $this->write('error', $n, $attempt, 'DamagedArguments in claim: they do not match their checksum');
            throw new JobFailed("the arguments of job $n are damaged");
        }
        $this->write('claimed', $n, $attempt);
        $this->faults->pass('after_claim', $n);
        $takes_s = $this->faults->meet($n, $payload);
        if ($this->faults->areAt('during_work')) {
            pause($takes_s /= 2);
            $this->faults->pass('during_work', $n);
        }
        pause($takes_s);
        $this->write('worked', $n, $attempt);
        $this->faults->pass('before_completion', $n);
    }
}

/** Sleeps, also if a signal interrupts that. */
function pause(float $duration_s): void {
    $until_ns = hrtime(true) + 1e9 * $duration_s;
    while (($left_ns = $until_ns - hrtime(true)) > 0) {
        usleep((int) ceil($left_ns / 1e3));
    }
}

/** Calls `$enqueue` with the arguments of each batch that the bench sends, and answers ok, refused, or the error's code and message. */
function serveBatches(callable $enqueue): void {
    send(['ready' => (object) []]);
    while (($line = fgets(STDIN)) !== false) {
        try {
            $enqueue(json_decode($line, true, flags: JSON_THROW_ON_ERROR)['jobs']);
            send(['ok' => true]);
        } catch (JobsRefused $refusal) {
            send(['refused' => $refusal->getMessage()]);
        } catch (\Throwable $error) {
            send(['error' => codeOf($error), 'message' => trim(preg_replace('/\s+/', ' ', $error->getMessage()))]);
        }
    }
}
