// PythonStream is a BatchStream as Python iterates it: the GIL is given up for all that waits, signals are
// looked for meanwhile, and batches are copied once the caller holds too many.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/batch/batch_stream.h"
#include "python/module/batch.h"
#include "python/module/stream_options.h"

namespace hopfeed::python {

class PythonStream {
 public:
  /// Opens the loader. The caller does not hold the GIL. Throws what its constructor throws.
  explicit PythonStream(StreamOptions options);

  /// Returns the next batch; nullopt at the end of the epoch. Throws what BatchStream::next throws, the
  /// exception of a Python signal handler (KeyboardInterrupt), kInvalid where another thread has closed the
  /// stream.
  std::optional<PythonBatch> next();
  void begin_epoch(std::int64_t epoch, std::int64_t start);
  /// Ends workers or connections; batches that are held stay. A next() of another thread ends with an error.
  void close();
  /// Returns `ask` of the open stream. Throws kInvalid where it is closed.
  template <class Ask>
  auto with_stream(Ask ask) {
    const std::lock_guard lock(mutex_);
    return ask(open_stream());
  }

 private:
  BatchStream& open_stream();

  std::atomic<bool> closing_{false};
  std::mutex mutex_;  // one call at a time
  std::unique_ptr<BatchStream> stream_;
};

/// Binds the class Stream.
void bind_stream(nanobind::module_& module);

}  // namespace hopfeed::python
