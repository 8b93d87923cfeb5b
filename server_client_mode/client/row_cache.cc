// See row_cache.h.
#include "server_client_mode/client/row_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/base/thread_annotations.h"
#include "server_client_mode/client/machine_rows.h"
#include "stream/torchrun_environment.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;

/// Rows that some stream of this process holds, the order that they are in, and whether none is NaN or
/// infinite.
struct Copy {
  std::shared_ptr<const HeldRows> rows;
  std::uint64_t order = 0;
  bool finite = true;
};

class Copies {
 public:
  std::optional<Copy> find(const std::string& key) {
    const MutexLock lock(mutex_);
    const auto found = copies_.find(key);
    if (found == copies_.end()) return {};
    Copy copy{
        .rows = found->second.rows.lock(), .order = found->second.order, .finite = found->second.finite};
    if (!copy.rows) return {};
    return copy;
  }
  void add(const std::string& key, const Copy& copy) {
    const MutexLock lock(mutex_);
    std::erase_if(copies_, [](const auto& entry) { return entry.second.rows.expired(); });
    copies_[key] = {.rows = copy.rows, .order = copy.order, .finite = copy.finite};
  }

 private:
  struct Entry {
    std::weak_ptr<const HeldRows> rows;
    std::uint64_t order = 0;
    bool finite = true;
  };
  Mutex mutex_;
  std::map<std::string, Entry> copies_ GUARDED_BY(mutex_);
};

Copies& copies() {
  static Copies all;
  return all;
}

std::optional<Copy> find_copy(const std::string& key) { return copies().find(key); }

std::string attrs_text(const BatchOptions& options) {
  return options.attrs ? fmt::format("{}", *options.attrs) : "all";
}

/// Whoever asks for the same may have the same copy.
std::string key_of(const RemoteExecution& remote, const DatasetMeta& meta, const BatchOptions& options) {
  return fmt::format("{} {} {} {} {}", meta.fingerprint, remote.cache.ratio, remote.cache.bytes,
                     remote.cache.automatic, attrs_text(options));
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

/// Whether bytes came otherwise than they were sent: the same server may do better.
bool is_garbled(const Error& error) { return error.code() == ErrorCode::kCorrupt; }

/// Opens the job at another server, one whose rows are in the same order, so that loading goes on there;
/// after garbled bytes at the same one where there is no other. Where there is none, throws what the lost one
/// ended with.
void go_elsewhere(asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
                  FirstContact& first, RemoteJob& job, const Error& why) {
  std::vector<std::size_t> others = ring_from(first.server, remote.servers.size());
  std::ranges::rotate(others, others.begin() + 1);
  if (!is_garbled(why)) others.pop_back();
  if (others.empty()) throw;
  const std::exception_ptr lost = std::current_exception();
  wire::Opened opened;
  const auto open = [&](Contact& contact) -> asio::awaitable<void> {
    Questions questions(contact);
    opened = co_await questions.open(job);
    require_valid(opened.held_order == job.opened.held_order && opened.num_seeds == job.opened.num_seeds,
                  fmt::format("{} has the rows in another order", contact.connection->peer()));
  };
  try {
    first = talk_to_any(context, remote, caller, others, open);
  } catch (const Error&) {
    std::rethrow_exception(lost);
  }
  opened.worst_block = std::max(opened.worst_block, job.opened.worst_block);
  job.opened = opened;
}

/// Asks one server after the other where they are lost on the way: rows are the same wherever they come from.
class RowLoader {
 public:
  RowLoader(asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
            FirstContact& first, RemoteJob& job)
      : context_(context),
        remote_(remote),
        caller_(caller),
        first_(first),
        job_(job),
        questions_(std::in_place, first.contact) {}

  void load(const wire::GetRows& which, std::span<std::byte> to) {
    for (std::size_t lost = 0;;) {
      try {
        run_to_end(context_, {[&]() -> asio::awaitable<void> { co_await questions_->rows(which, to); }},
                   remote_.while_waiting);
        first_.draining = first_.draining || questions_->draining();
        return;
      } catch (const Error& error) {
        // Each has been asked for these.
        if (++lost >= remote_.servers.size() + (is_garbled(error) ? 1 : 0)) throw;
        go_elsewhere(context_, remote_, caller_, first_, job_, error);
        questions_.emplace(first_.contact);
      }
    }
  }

  /// Says something to the server, which lets go of clients that are silent.
  void stay() {
    try {
      run_to_end(context_, {[&]() -> asio::awaitable<void> { co_await questions_->status(); }});
    } catch (const Error&) {  // it is lost: whoever asks it next goes elsewhere
    }
  }

 private:
  asio::io_context& context_;
  const RemoteExecution& remote_;
  const Caller& caller_;
  FirstContact& first_;
  RemoteJob& job_;
  std::optional<Questions> questions_;
};

/// Whether all are finite.
bool load_all(RowLoader& loader, HeldRows& rows, const DatasetMeta& meta) {
  bool finite = true;
  for (const HeldRows::Run& run : rows.runs()) {
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
      loader.load(which, to);
      finite = finite && run.finite(to);
    }
  }
  return finite;
}

Copy load(RowLoader& loader, const RemoteJob& job, const DatasetMeta& meta) {
  Copy copy{.rows = nullptr, .order = job.opened.held_order};
  if (local_ranks().world == 1) {
    const auto rows = std::make_shared<HeldRows>(meta, job.spec.batch, job.held);
    copy.finite = load_all(loader, *rows, meta);
    copy.rows = rows;
    return copy;
  }
  const MachineRows shared =
      machine_rows({.order = fmt::format("{} {:016x} {}", meta.fingerprint, job.opened.held_order,
                                         attrs_text(job.spec.batch)),
                    .meta = meta,
                    .batch = job.spec.batch,
                    .share = job.held,
                    .load = [&](HeldRows& rows) { return load_all(loader, rows, meta); },
                    .meanwhile = [&] { loader.stay(); }});
  copy.rows = shared.rows;
  copy.finite = shared.finite;
  return copy;
}

/// The share of the rows to hold: as much of what is wanted as fits.
HeldShare decide_share(const RemoteExecution& remote, const DatasetMeta& meta, const BatchOptions& options) {
  const CacheSize& cache = remote.cache;
  const double most = cache.automatic || cache.bytes > 0 ? 1 : cache.ratio;
  const HeldShare wanted{.millionths =
                             static_cast<std::uint32_t>(most * static_cast<double>(HeldShare::kAll))};
  // Where batches carry no attributes there is nothing to hold; and a row that is longer than an answer
  // (kMaxRowsBytes) is not to be had.
  if (HeldRows::bytes_of(meta, options, wanted) == 0 || has_rows_beyond_an_answer(meta, options)) return {};
  const std::size_t room = available_memory().bytes / 4;  // of the machine: its ranks have one copy
  const HeldShare fits = HeldRows::fit(meta, options, wanted, cache.within(room));
  require_valid(
      HeldRows::bytes_of(meta, options, fits) > 0 || cache.bytes == 0,
      fmt::format(
          "{} is {} bytes, which have no room for one row of each partition; choose more, or no cache",
          marked("cache"), cache.bytes));
  if (cache.automatic) return fits.ratio() < kLeastCacheRatio ? HeldShare{} : fits;
  if (fits != wanted && cache.bytes == 0 && remote.note)
    remote.note(
        fmt::format("of the rows {:.1f}% are held here instead of {:.1f}%: that is what fits into {}, a "
                    "quarter of the free memory",
                    100 * fits.ratio(), 100 * wanted.ratio(), format_bytes(room)));
  return fits;
}

}  // namespace

AgreedShare share_to_hold(const RemoteExecution& remote, const DatasetMeta& meta,
                          const BatchOptions& options) {
  const std::string key = key_of(remote, meta, options);
  if (const std::optional<Copy> copy = find_copy(key)) return {.share = copy->rows->share(), .agreement = {}};
  const auto decide = [&] { return decide_share(remote, meta, options); };
  if (local_ranks().world == 1) return {.share = decide(), .agreement = {}};
  return agreed_share(key, decide);
}

std::shared_ptr<const HeldRows> held_rows(asio::io_context& context, const Caller& caller,
                                          FirstContact& first, const RemoteExecution& remote, RemoteJob& job,
                                          const DatasetMeta& meta, std::shared_ptr<const void> agreement) {
  if (!job.held.any()) return nullptr;
  const std::string key = key_of(remote, meta, job.spec.batch);
  std::optional<Copy> copy = find_copy(key);
  if (!copy || copy->order != job.opened.held_order || copy->rows->share() != job.held) {
    RowLoader loader(context, remote, caller, first, job);
    copy = load(loader, job, meta);
    // Whoever has the rows keeps the agreement, for ranks that come later.
    using Both = std::pair<std::shared_ptr<const HeldRows>, std::shared_ptr<const void>>;
    const auto both = std::make_shared<const Both>(copy->rows, std::move(agreement));
    copy->rows = {both, both->first.get()};
    copies().add(key, *copy);
  }
  return job.check_finite && !copy->finite ? nullptr : copy->rows;
}

}  // namespace hopfeed
