<?php

// An adapter whose library executes each job that it is handed at once: it shows the contract module alone.
require __DIR__ . '/../../libraries/contract/php/stallbench_contract.php';

$recorder = new Stallbench\Recorder(Stallbench\readDocument());
$recorder->ready();
Stallbench\serveBatches(function (array $jobs) use ($recorder) {
    if ($jobs[0]['payload'] === 'full') throw new Stallbench\JobsRefused('the queue is full');
    if (str_starts_with($jobs[0]['payload'], 'http:') && @file_get_contents($jobs[0]['payload']) === false) {
        throw new RuntimeException(error_get_last()['message']);
    }
    foreach ($jobs as $job) {
        $recorder->work($job, 1);
        $recorder->write('completed', $job['n'], 1);
    }
});
