// A sampling worker of a server learns by this what a job is. It asks for the job's number over a socket that
// it inherited, and is answered with descriptors: a memfd that holds the job as JSON, and, where the job's
// seeds are given ones, the memfd of the packed seeds, of which there is one physical copy for all workers,
// and the dataset's row cache where it has one. Where there is no such job, none come. It also asks which of
// its jobs are gone, to let go of what they hold.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/owned_fd.h"
#include "core/batch/batch_spec.h"

namespace hopfeed {

/// A JobDescription is one job, as a worker has to know it.
struct JobDescription {
  std::string dataset;         // absolute path of the folder
  std::uint64_t manifest = 0;  // manifest_hash() of what is in it
  BatchSpec spec;
  bool check_finite = false;

  std::string to_json() const;
  /// Reads the description. Throws kCorrupt.
  static JobDescription from_json(const std::string& text);
};

/// JobFiles are the descriptors of a job, which may be sent to any number of workers.
struct JobFiles {
  std::shared_ptr<const OwnedFd> description;  // JobDescription as JSON; none: there is no such job
  std::shared_ptr<const OwnedFd> seeds;        // as BatchSource::pack() wrote them; none: a split
  std::shared_ptr<const OwnedFd> row_cache;    // of the dataset, as make_dynamic_cache() made it; or none
};
using FindJob = std::function<JobFiles(std::uint32_t job)>;

/// JobSockets are a connected pair of sockets that keep messages whole; the second end is the worker's.
struct JobSockets {
  JobSockets();  // throws kIo
  OwnedFd ours, workers;
};

/// Answers, on the server's side, what a worker has asked for by now. Never waits. Returns false where the
/// worker is gone.
bool answer_jobs(int socket, const FindJob& find);

/// A ReceivedJob is what a worker got, as its own descriptors.
struct ReceivedJob {
  OwnedFd description, seeds, row_cache;
};
/// Asks for a job and waits for the answer. Throws kNotFound where there is no such job, kPeerDied where the
/// server is gone, kTimeout.
ReceivedJob ask_for_job(int socket, std::uint32_t job, std::chrono::milliseconds deadline);
/// Returns the jobs that the server has no more. Throws kPeerDied, kTimeout.
std::vector<std::uint32_t> ask_for_gone(int socket, std::span<const std::uint32_t> jobs,
                                        std::chrono::milliseconds deadline);

}  // namespace hopfeed
