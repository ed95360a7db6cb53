module stallbench/contract

go 1.22.0
