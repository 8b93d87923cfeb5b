// hopfeed-worker: samples batches into a channel, on the host or on a GPU; a supervisor starts it.
#include "gpu/device/worker_room.h"
#include "worker_mode/program/run_worker.h"

int main(int argc, char** argv) { return hopfeed::run_worker(argc, argv, hopfeed::gpu::room_named); }
