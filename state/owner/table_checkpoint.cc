// See table_checkpoint.h.
#include "state/owner/table_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

std::int64_t first_partition_of(const OwnedTable& table) {
  const std::vector<std::int64_t> partitions = table.rows.partitions();
  return partitions.empty() ? 0 : partitions.front();
}

const RowStore& store_of(const OwnedTable& table) {
  return table.tensor != nullptr ? table.tensor->store() : table.embedding->table().store();
}

void require_wanted(const OwnedTable& table) {
  require_valid(table.given_up == nullptr || !*table.given_up, "nobody wants it any more");
}

/// Of another cut or of other partitions, its rows may lie at other owners, and theirs here.
bool is_own(const ShardFile& file, const OwnedTable& table) {
  if (file.head().partitions != table.rows.partitions() ||
      file.head().num_partitions != table.rows.num_partitions())
    return false;
  bool own = true;
  file.for_each_ids([&](std::span<const std::int64_t> ids) {
    require_wanted(table);
    own = std::ranges::all_of(ids, [&](std::int64_t id) { return table.rows.row_of_original(id) >= 0; });
    return own;
  });
  return own;
}

std::unique_ptr<ShardFile> opened(const std::filesystem::path& checkpoint, const ShardSum& sum,
                                  const OwnedTable& table) {
  const std::filesystem::path path = shard_path(checkpoint, table.spec.name, sum.first_partition);
  std::unique_ptr<ShardFile> file;
  try {
    file = std::make_unique<ShardFile>(path, [&] { require_wanted(table); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw Error(ErrorCode::kNotFound,
                fmt::format("its shard {} is not there; an owner of other partitions than before reads the "
                            "shards of all: put them into one folder",
                            path.string()));
  }
  const ShardHead& head = file->head();
  require_valid(head.fingerprint == table.fingerprint,
                fmt::format("{} is of another dataset; go back to a checkpoint of this one", path.string()));
  head.spec.require_same(table.spec);
  if (file->sum() != sum)
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("{} is not the file that the checkpoint names; go back to another one", path.string()));
  return file;
}

std::vector<std::unique_ptr<ShardFile>> shards_of(const std::filesystem::path& checkpoint,
                                                  std::span<const ShardSum> shards, Shards which,
                                                  const OwnedTable& table) {
  std::vector<std::unique_ptr<ShardFile>> files;
  const auto own = std::ranges::find(shards, first_partition_of(table), &ShardSum::first_partition);
  if (which == Shards::kOwn && own != shards.end()) {
    files.push_back(opened(checkpoint, *own, table));
    if (is_own(*files.front(), table)) return files;
    files.clear();
  }
  for (const ShardSum& sum : shards) files.push_back(opened(checkpoint, sum, table));
  return files;
}

/// Returns the whole number that a name is; -1: it is none.
std::int64_t number_in(std::string_view name) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

/// Those of the table that this owner has to remove: of its partitions, and of earlier cuts into more, whose
/// owners may be gone, each one's share.
void remove_shards(const std::filesystem::path& checkpoint, const OwnedTable& table) {
  const std::vector<std::int64_t> mine = table.rows.partitions();
  const std::string head = table.spec.name + ".", tail = ".rows";
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(head) || !name.ends_with(tail) || name.size() <= head.size() + tail.size())
      continue;
    const std::int64_t first =
        number_in(std::string_view(name).substr(head.size(), name.size() - head.size() - tail.size()));
    if (first >= 0 && std::ranges::find(mine, first % table.rows.num_partitions()) != mine.end())
      std::filesystem::remove(entry.path(), none);
  }
}

}  // namespace

ShardSum save_table(const std::filesystem::path& checkpoint, const OwnedTable& table) {
  ShardHead head{.spec = table.spec,
                 .fingerprint = table.fingerprint,
                 .partitions = table.rows.partitions(),
                 .num_partitions = table.rows.num_partitions(),
                 .steps = 0,
                 .count = {},
                 .rows = store_of(table).num_written(),
                 .row_bytes = stored_row_bytes(table.spec)};
  if (table.embedding != nullptr) {
    head.steps = table.embedding->steps_applied();
    head.count = table.embedding->table().count();
  }
  ShardWriter out(shard_path(checkpoint, table.spec.name, first_partition_of(table)), head);
  store_of(table).for_each_written([&](std::int64_t row, const std::byte* bytes) {
    require_wanted(table);
    out.add(table.rows.original_id(row), bytes);
  });
  require_wanted(table);
  return out.commit();
}

FoundShards::FoundShards(const std::filesystem::path& checkpoint, std::span<const ShardSum> shards,
                         Shards which, const OwnedTable& table) {
  require_valid(!shards.empty(), "the checkpoint names no shards");
  for (std::size_t i = 0; i < shards.size(); ++i)
    require_valid(
        i == 0 || shards[i].first_partition > shards[i - 1].first_partition,
        fmt::format("it names the shard of partition {} twice, or out of order", shards[i].first_partition));
  files_ = shards_of(checkpoint, shards, which, table);
  for (const std::unique_ptr<ShardFile>& file : files_)
    if (file->head().steps != head().steps || file->head().count != head().count)
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("its shards in {} are of different steps; go back to another checkpoint",
                              checkpoint.string()));
}

RestoredShard FoundShards::put_into(const OwnedTable& table) const {
  std::int64_t restored = 0;
  const auto put = [&table](std::int64_t row, const std::byte* bytes) {
    if (table.tensor != nullptr) return table.tensor->restore(row, bytes);
    LearnedTable& learned = table.embedding->table_to_restore();
    learned.restore(row,
                    {reinterpret_cast<const float*>(bytes), static_cast<std::size_t>(learned.row_numbers())});
  };
  for (const std::unique_ptr<ShardFile>& file : files_)
    file->for_each([&](std::span<const std::int64_t> ids, const std::byte* rows) {
      require_wanted(table);
      for (const std::int64_t id : ids) {
        const std::int64_t row = table.rows.row_of_original(id);
        if (row >= 0) {
          ++restored;
          put(row, rows);
        }
        rows += head().row_bytes;
      }
    });
  return {.rows = restored, .steps = head().steps};
}

void keep_checkpoints(const std::filesystem::path& folder, std::uint64_t run,
                      std::span<const std::int64_t> kept, const OwnedTable& table) {
  const std::filesystem::path of_run = checkpoint_folder(folder, run, 0).parent_path();
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(of_run, none)) {
    const std::string name = entry.path().filename().string();
    const std::int64_t checkpoint = number_in(name);
    if (checkpoint < 0) continue;  // not ours
    if (std::ranges::find(kept, checkpoint) != kept.end()) continue;
    remove_shards(entry.path(), table);
    std::filesystem::remove(entry.path(), none);  // where it is empty
  }
  std::filesystem::remove(of_run, none);  // likewise
}

}  // namespace hopfeed
