<?php

// Laravel's database queue, as `php artisan queue:work` runs it: its Worker in a loop, here without the rest of the framework.
// The tables are those of the migrations that `queue:table` and `queue:failed-table` write.

require __DIR__ . '/../contract/php/stallbench_contract.php';
foreach (['Bus', 'Database', 'Events', 'Queue'] as $component) {
    require_once "Illuminate/$component/autoload.php";
}

use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\DetectsLostConnections;
use Illuminate\Queue\Events;
use Stallbench\Recorder;

const QUEUE = 'default';

/** The application's job, which the container hands the recorder. */
class Job implements Illuminate\Contracts\Queue\ShouldQueue {
    use Illuminate\Queue\InteractsWithQueue;

    public function __construct(public array $arguments) {}

    public function handle(Recorder $recorder): void {
        $recorder->work($this->arguments, $this->attempts());
    }
}

/** Records the end of each job; takes the errors that Laravel's worker reports, and stays in the loop. */
class Observer implements ExceptionHandler {
    use DetectsLostConnections;

    public bool $hasLostConnection = false;
    private array $job = []; // the bench's number and the attempt of the job that the worker has

    public function __construct(private Recorder $recorder) {}

    public function onProcessing(Events\JobProcessing $event): void {
        $this->job = [$event->job->payload()['n'], $event->job->attempts()];
    }

    /** The transaction that deletes the job has been committed when the worker dispatches this event. */
    public function onProcessed(Events\JobProcessed $event): void {
        $this->recorder->write('completed', ...$this->job);
        $this->job = [];
    }

    /** The worker calls this for an error of a claim, and for that of a job when it has released the job or moved it to failed_jobs. */
    public function report(Throwable $e) {
        $this->hasLostConnection = $this->hasLostConnection || $this->causedByLostConnection($e);
        $operation = $this->job ? 'complete' : 'claim';
        if ($e instanceof PDOException) {
            $detail = Stallbench\codeOf($e) . " in $operation: {$e->getMessage()}";
            $this->recorder->write('error', $this->job[0] ?? '', $this->job[1] ?? '', $detail);
        } else {
            $this->recorder->write('failed', $this->job[0] ?? '', $this->job[1] ?? '', $e->getMessage());
        }
        $this->job = [];
    }

    public function shouldReport(Throwable $e) {
        return true;
    }

    public function render($request, Throwable $e) {}

    public function renderForConsole($output, Throwable $e) {}
}

/** Sets up the components as the framework's default configuration does. */
function makeContainer(array $document): Container {
    ['endpoint' => $endpoint, 'queue_options' => $options] = $document;
    $container = new Container();
    Container::setInstance($container);
    $database = new Illuminate\Database\Capsule\Manager($container);
    $emulates = $options['emulate_prepares'] || !$endpoint['prepared_statements'];
    $access = ['username' => $endpoint['user']] + array_intersect_key($endpoint, array_flip(['host', 'port', 'database', 'password']));
    $database->addConnection($access + match ($endpoint['engine']) {
        'postgres' => ['driver' => 'pgsql', 'charset' => 'utf8', 'search_path' => 'public', 'application_name' => "stallbench:{$document['name']}"],
        'mariadb' => ['driver' => 'mysql', 'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'strict' => true],
        'sqlite' => ['driver' => 'sqlite', 'prefix' => '', 'foreign_key_constraints' => true],
    } + array_filter(['version' => $options['server_version']]) + ($emulates ? ['options' => [PDO::ATTR_EMULATE_PREPARES => true]] : []));
    $container->instance('db', $database->getDatabaseManager());
    $container->instance('events', $events = new Illuminate\Events\Dispatcher($container));
    $container->instance(Illuminate\Contracts\Events\Dispatcher::class, $events);
    $container->instance(Illuminate\Contracts\Container\Container::class, $container);
    $container->bind(Illuminate\Contracts\Bus\Dispatcher::class, fn ($container) => new Illuminate\Bus\Dispatcher($container));
    $queue = new Illuminate\Queue\Capsule\Manager($container);
    $queue->addConnection(['driver' => 'database', 'table' => 'jobs', 'queue' => QUEUE, 'retry_after' => $options['retry_after']]);
    $container->instance('queue', $queue->getQueueManager());
    Illuminate\Queue\Queue::createPayloadUsing(fn ($connection, $name, $payload) => ['n' => $payload['data']['command']->arguments['n'] ?? null]);
    return $container;
}

/** Returns a worker as the framework makes it, with the events that `queue:work` listens to. */
function makeWorker(Container $container, Observer $observer): Illuminate\Queue\Worker {
    $events = $container['events'];
    $failed = new Illuminate\Queue\Failed\DatabaseUuidFailedJobProvider($container['db'], 'default', 'failed_jobs');
    $events->listen(Events\JobFailed::class, fn ($event) => $failed->log(
        $event->connectionName, $event->job->getQueue(), $event->job->getRawBody(), $event->exception));
    $events->listen(Events\JobProcessing::class, $observer->onProcessing(...));
    $events->listen(Events\JobProcessed::class, $observer->onProcessed(...));
    return new Illuminate\Queue\Worker($container['queue'], $events, $observer, fn () => false);
}

function work(array $document): int {
    $options = $document['queue_options'];
    $recorder = new Recorder($document);
    makeContainer($document)['db']->connection()->getPdo();
    pcntl_async_signals(true); pcntl_signal(SIGTERM, fn () => exit(0)); // until the worker has a handler of its own
    $recorder->ready();
    $stopped = false;
    do { // A worker ends when its connection is lost. The documentation lets Supervisor start the next one, as this loop does.
        $container = makeContainer($document);
        $container->instance(Recorder::class, $recorder);
        $worker = makeWorker($container, $observer = new Observer($recorder));
        $container['events']->listen(Events\Looping::class, function () use ($worker, &$stopped) {
            pcntl_signal(SIGTERM, function () use ($worker, &$stopped) {
                $stopped = $worker->shouldQuit = true;
            });
        });
        $settings = new Illuminate\Queue\WorkerOptions(sleep: $options['sleep'], maxTries: $options['tries']);
        $status = $worker->daemon('default', QUEUE, $settings);
    } while ($observer->hasLostConnection && !$stopped);
    return $status;
}

function produce(array $document): void {
    $container = makeContainer($document);
    $enqueue = fn (array $jobs) => $container['queue']->connection()->bulk(array_map(fn ($job) => new Job($job), $jobs));
    Stallbench\serveBatches(fn ($jobs) => array_map($enqueue, array_chunk($jobs, 5000))); // a statement has at most 65535 parameters
}

/** Runs the migrations that the library's commands would write into an application. */
function install(array $document): void {
    Illuminate\Support\Facades\Facade::setFacadeApplication($container = makeContainer($document));
    $stubs = dirname((new ReflectionClass(Illuminate\Queue\Console\TableCommand::class))->getFileName()) . '/stubs';
    foreach (['Jobs' => 'jobs', 'FailedJobs' => 'failed_jobs'] as $name => $table) {
        $migration = str_replace(['{{tableClassName}}', '{{table}}'], [$name, $table], file_get_contents("$stubs/$table.stub"));
        eval('?>' . $migration);
        (new ("Create{$name}Table"))->up();
    }
    for ($left = $document['queue_options']['other_jobs']; $left > 0; $left -= 1000) {
        $container['queue']->connection()->bulk(array_fill(0, min($left, 1000), 'job of another queue'), '', 'other-' . $left % 9000);
    }
}

$document = Stallbench\readDocument();
exit($argv[1]($document) ?? 0);
