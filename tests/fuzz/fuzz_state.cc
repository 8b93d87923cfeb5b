// Any bytes as questions to an owner of state: each is answered exactly once, at the latest when the owner
// ends, by an answer that its reader takes or by one line. Some bytes are questions as they are, others
// fields of such that mean something, so that steps are looked at, brought and applied, and checkpoints are
// written and gone back to, while more is asked: the owner is at its files when the bytes say so.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/plain_text.h"
#include "core/dataset/dataset.h"
#include "state/owner/state_owner.h"
#include "tests/support/tiny_dataset.h"

namespace {

using namespace hopfeed;

constexpr std::int64_t kNodes = 20, kRanks = 2;

/// Bytes, and zeros behind their end.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  std::uint8_t byte() { return empty() ? 0 : bytes_[at_++]; }
  std::uint8_t below(std::uint8_t n) { return static_cast<std::uint8_t>(byte() % n); }
  RecycledBytes raw(std::size_t most) {
    RecycledBytes bytes;
    while (bytes.size() < most && !empty()) bytes.push_back(static_cast<std::byte>(byte()));
    return bytes;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

const Dataset& dataset() {
  static const testing::TempFolder folder;
  static const std::unique_ptr<Dataset> opened = [] {
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = kNodes, .num_edges = 40, .num_train = 5});
    testing::write_tiny_dataset(folder.path() / "data", graph, testing::random_cut(graph, 3, 1));
    return std::make_unique<Dataset>(folder.path() / "data",
                                     DatasetOptions{.some_partitions = true, .partitions = {0, 2}});
  }();
  return *opened;
}

std::string opening(const char* name, const char* kind, const char* dtype, const char* optimizer) {
  return std::string(R"({"table":{"name":")") + name + R"(","node_type":"node","kind":")" + kind +
         R"(","dtype":")" + dtype + R"(","width":3,"first_values":"zeros","seed":1,"optimizer":")" +
         optimizer + R"(","lr":0.1,"beta1":0.9,"beta2":0.999,"epsilon":1e-8},"fingerprint":")" +
         dataset().meta().fingerprint + R"(","ranks":2,"timeout_ms":1000})";
}

/// An owner with two tables, and what became of the questions.
class Asked {
 public:
  Asked() {
    open(opening("learned", "embedding", "float32", "sparse_adam"));
    open(opening("written", "tensor", "int64", "sgd"));
  }
  ~Asked() {
    while (be_at_files()) continue;
    owner_.reset();
    if (asked_ != answered_) std::abort();
  }
  /// Does the first of what is to be done at files; false: there is none.
  bool be_at_files() {
    if (at_files_.empty()) return false;
    const std::function<void()> work = std::move(at_files_.front());
    at_files_.pop_front();
    work();
    return true;
  }
  /// What the last checkpoint of a table has of it.
  std::vector<ShardSum> saved(std::uint32_t table) const {
    const auto found = saved_.find(table);
    return found == saved_.end() ? std::vector<ShardSum>() : std::vector<ShardSum>{found->second};
  }
  void ask(RecycledBytes question) {
    ++asked_;
    StateHead head;
    if (question.size() >= sizeof head) std::memcpy(&head, question.data(), sizeof head);
    owner_->answer(1, std::make_shared<const RecycledBytes>(std::move(question)),
                   [this, head, once = std::make_shared<bool>(false)](StateReply reply) {
                     if (std::exchange(*once, true)) std::abort();
                     ++answered_;
                     look_at(reply);
                     const auto* answer = std::get_if<RecycledBytes>(&reply);
                     if (head.ask == StateAsk::kSave && answer != nullptr)
                       saved_[head.table] = read_shard_sum(*answer);
                   });
  }
  std::uint64_t start() const { return start_; }
  StateOwner& owner() { return *owner_; }

 private:
  void open(const std::string& json) {
    owner_->answer(1, std::make_shared<RecycledBytes>(write_opening({.run = 1}, json)),
                   [this](StateReply reply) { start_ = read_opened(std::get<RecycledBytes>(reply)).owner; });
  }
  static void look_at(const StateReply& reply) {
    if (const auto* error = std::get_if<Error>(&reply)) {
      if (!is_text(error->what(), Lines::kOne)) std::abort();
      return;
    }
    if (const auto* answer = std::get_if<RecycledBytes>(&reply); answer != nullptr && answer->size() < 8)
      std::abort();
  }
  const testing::TempFolder folder_;
  std::deque<std::function<void()>> at_files_;
  std::map<std::uint32_t, ShardSum> saved_;
  std::unique_ptr<StateOwner> owner_ = std::make_unique<StateOwner>(
      dataset(), StateOwnerOptions{.folder = folder_.path(), .at_files = [this](std::function<void()> work) {
                                     at_files_.push_back(std::move(work));
                                   }});
  std::uint64_t start_ = 0;
  std::int64_t asked_ = 0, answered_ = 0;
};

/// Save, restore or keep.
void ask_about_a_checkpoint(const StateHead& head, Asked& asked, Bytes& bytes) {
  std::vector<std::int64_t> numbers{bytes.below(8), bytes.below(3)};
  if (head.ask == StateAsk::kRestore) numbers.push_back(bytes.below(2));
  if (head.ask == StateAsk::kKeep)
    for (std::uint8_t count = bytes.below(3); count > 0; --count) numbers.push_back(bytes.below(3));
  if (bytes.below(8) == 7) numbers.push_back(bytes.below(3) - 1);
  std::vector<ShardSum> shards;
  if (head.ask == StateAsk::kRestore) {
    shards = asked.saved(head.table);
    const std::uint8_t change = bytes.below(8);
    if (change == 5 && !shards.empty()) shards.front().xxh3 ^= 1;
    if (change == 6 && !shards.empty()) shards.push_back(shards.front());
    if (change == 7) shards.clear();
  }
  const std::span<const std::byte> rest = std::as_bytes(std::span(shards));
  asked.ask(write_state_question(head, numbers, rest.size(),
                                 [&](std::byte* out) { std::ranges::copy(rest, out); }));
}

void ask_something(Asked& asked, Bytes& bytes) {
  StateHead head{.ask = static_cast<StateAsk>(1 + bytes.below(11)),
                 .table = bytes.below(4),
                 .owner = asked.start(),
                 .run = std::uint64_t{1} + bytes.below(8) / 7U,
                 .attempt = bytes.below(8) / 7U,
                 .rank = bytes.below(8) / 3U,
                 .number = bytes.below(6),
                 .client = bytes.below(3)};
  if (head.ask == StateAsk::kOpen)
    return asked.ask(write_opening(head, opening(head.table == 1 ? "learned" : "written", "embedding",
                                                 "float32", bytes.below(2) == 0 ? "sgd" : "sparse_adam")));
  if (head.ask >= StateAsk::kSave) return ask_about_a_checkpoint(head, asked, bytes);
  std::vector<std::int64_t> ids;
  for (std::uint8_t count = bytes.below(5); count > 0; --count) ids.push_back(bytes.below(kNodes + 2) - 1);
  if (bytes.below(4) != 0) {
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
  }
  head.rows_of_all_owners = bytes.below(3);
  const std::size_t each = head.table == 1 ? 12 : 24,
                    rest = bytes.below(8) == 7 ? bytes.byte() : ids.size() * each;
  const std::uint8_t value = bytes.byte();
  asked.ask(write_state_question(head, ids, rest, [&](std::byte* out) { std::memset(out, value, rest); }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes({data, size});
  Asked asked;
  for (int times = 0; times < 200 && !bytes.empty(); ++times) {
    switch (bytes.below(14)) {
      case 0:
        asked.ask(bytes.raw(bytes.byte()));
        break;
      case 1:
        asked.owner().tick();
        break;
      case 2:
        if (bytes.below(8) == 0) asked.owner().disconnected(1);
        break;
      case 12:
        asked.be_at_files();
        break;
      default:
        ask_something(asked, bytes);
    }
  }
  return 0;
}
