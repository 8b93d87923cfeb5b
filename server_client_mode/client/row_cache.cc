// See row_cache.h.
#include "server_client_mode/client/row_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/base/thread_annotations.h"
#include "worker_mode/torchrun_environment.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;

/// Rows that some stream of this process holds, and the order that they are in.
struct Copy {
  std::shared_ptr<const HeldRows> rows;
  std::uint64_t order = 0;
};

class Copies {
 public:
  std::optional<Copy> find(const std::string& key) {
    const MutexLock lock(mutex_);
    const auto found = copies_.find(key);
    if (found == copies_.end()) return {};
    Copy copy{.rows = found->second.rows.lock(), .order = found->second.order};
    if (!copy.rows) return {};
    return copy;
  }
  void add(const std::string& key, const Copy& copy) {
    const MutexLock lock(mutex_);
    std::erase_if(copies_, [](const auto& entry) { return entry.second.rows.expired(); });
    copies_[key] = {.rows = copy.rows, .order = copy.order};
  }

 private:
  struct Entry {
    std::weak_ptr<const HeldRows> rows;
    std::uint64_t order = 0;
  };
  Mutex mutex_;
  std::map<std::string, Entry> copies_ GUARDED_BY(mutex_);
};

Copies& copies() {
  static Copies all;
  return all;
}

std::optional<Copy> find_copy(const std::string& key) { return copies().find(key); }

/// Whoever asks for the same may have the same copy.
std::string key_of(const RemoteOptions& remote, const DatasetMeta& meta, const BatchOptions& options) {
  return fmt::format("{} {} {} {}", meta.fingerprint, remote.cache_ratio, remote.cache_bytes,
                     options.attrs ? fmt::format("{}", *options.attrs) : "all");
}

bool has_rows_beyond_an_answer(const DatasetMeta& meta, const BatchOptions& options) {
  return std::ranges::any_of(meta.node_types, [&](const NodeTypeMeta& node) {
    return std::ranges::any_of(node.attrs, [&](const AttrMeta& attr) {
      const bool carried =
          !options.attrs || std::ranges::find(*options.attrs, attr.name) != options.attrs->end();
      return carried && attr.row_bytes() > static_cast<std::int64_t>(kMaxRowsBytes);
    });
  });
}

std::shared_ptr<const HeldRows> load(asio::io_context& context, FirstContact& first, const RemoteJob& job,
                                     const DatasetMeta& meta) {
  const auto rows = std::make_shared<HeldRows>(meta, job.spec.batch, job.held);
  Questions questions(first.contact);
  for (const HeldRows::Run& run : rows->runs()) {
    const std::size_t row_bytes = run.rows.size() / static_cast<std::size_t>(run.count);
    const auto at_a_time = std::max<std::int64_t>(1, static_cast<std::int64_t>(kMaxRowsBytes / row_bytes));
    for (std::int64_t done = 0; done < run.count; done += at_a_time) {
      wire::GetRows which;
      which.fingerprint = meta.fingerprint;
      which.node_type = meta.node_types[static_cast<std::size_t>(run.node_type)].name;
      which.attr = run.attr;
      which.first = run.first + done;
      which.count = std::min(at_a_time, run.count - done);
      const std::span<std::byte> to = run.rows.subspan(static_cast<std::size_t>(done) * row_bytes,
                                                       static_cast<std::size_t>(which.count) * row_bytes);
      run_to_end(context, [&]() -> asio::awaitable<void> { co_await questions.rows(which, to); });
    }
  }
  first.draining = first.draining || questions.draining();
  return rows;
}

}  // namespace

HeldShare share_to_hold(const RemoteOptions& remote, const DatasetMeta& meta, const BatchOptions& options) {
  if (const std::optional<Copy> copy = find_copy(key_of(remote, meta, options))) return copy->rows->share();
  const HeldShare wanted{
      .millionths = static_cast<std::uint32_t>(remote.cache_ratio * static_cast<double>(HeldShare::kAll))};
  // Where batches carry no attributes there is nothing to hold; and a row that is longer than an answer
  // (kMaxRowsBytes) is not to be had.
  if (HeldRows::bytes_of(meta, options, wanted) == 0 || has_rows_beyond_an_answer(meta, options)) return {};
  const std::size_t room = available_memory().bytes / 4 / static_cast<std::size_t>(local_ranks().world);
  const HeldShare fits =
      HeldRows::fit(meta, options, wanted,
                    remote.cache_bytes != 0 ? std::min<std::size_t>(remote.cache_bytes, room) : room);
  require_valid(
      HeldRows::bytes_of(meta, options, fits) > 0 || remote.cache_bytes == 0,
      fmt::format("cache_bytes is {}, which has no room for one row of each partition; choose more, "
                  "or no cache",
                  remote.cache_bytes));
  return fits;
}

std::shared_ptr<const HeldRows> held_rows(asio::io_context& context, FirstContact& first,
                                          const RemoteOptions& remote, const RemoteJob& job,
                                          const DatasetMeta& meta) {
  if (!job.held.any()) return nullptr;
  const std::string key = key_of(remote, meta, job.spec.batch);
  std::optional<Copy> copy = find_copy(key);
  if (!copy || copy->order != job.opened.held_order || copy->rows->share() != job.held) {
    copy = Copy{.rows = load(context, first, job, meta), .order = job.opened.held_order};
    copies().add(key, *copy);
  }
  return job.check_finite && !copy->rows->finite() ? nullptr : copy->rows;
}

}  // namespace hopfeed
