// Machines are several machines in one process, each with some partitions of a dataset, that answer each
// other: what partitions on several machines are without the network between them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/maker/partition_owner.h"

namespace hopfeed::testing {

/// OwnersHere are owners in this process, called at once. It counts what would have gone over the wire.
class OwnersHere final : public PartitionPeers {
 public:
  explicit OwnersHere(std::vector<PartitionOwner*> owner_of) : owner_of_(std::move(owner_of)) {}
  Ticket ask(int partition, PeerBytes question) override {
    ++questions_;
    bytes_ += question.size();
    auto answer = std::make_shared<const PeerBytes>(
        owner_of_.at(static_cast<std::size_t>(partition))->answer(question));
    bytes_ += answer->size();
    answers_.emplace(++last_, std::move(answer));
    return last_;
  }
  PeerAnswer wait(Ticket ticket) override {
    PeerAnswer answer = answers_.at(ticket);
    answers_.erase(ticket);
    return answer;
  }
  void drop(Ticket ticket) noexcept override { answers_.erase(ticket); }
  std::int64_t questions() const { return questions_; }
  std::size_t bytes() const { return bytes_; }
  /// Returns the answers that nobody has waited for.
  std::size_t left() const { return answers_.size(); }

 private:
  const std::vector<PartitionOwner*> owner_of_;
  std::unordered_map<Ticket, PeerAnswer> answers_;
  Ticket last_ = 0;
  std::int64_t questions_ = 0;
  std::size_t bytes_ = 0;
};

/// Machine m has the partitions p with p % machines == m of the dataset in a folder.
class Machines {
 public:
  Machines(const std::filesystem::path& folder, int machines) {
    const int partitions = Dataset(folder).meta().partitions;
    std::vector<std::vector<int>> own(static_cast<std::size_t>(machines));
    for (int p = 0; p < partitions; ++p) own[static_cast<std::size_t>(p % machines)].push_back(p);
    for (const std::vector<int>& list : own) {
      if (list.empty()) continue;
      datasets_.push_back(
          std::make_unique<Dataset>(folder, DatasetOptions{.some_partitions = true, .partitions = list}));
      owners_.push_back(std::make_unique<PartitionOwner>(*datasets_.back()));
    }
    std::vector<PartitionOwner*> owner_of;
    for (int p = 0; p < partitions; ++p)
      owner_of.push_back(owners_[static_cast<std::size_t>(p % machines)].get());
    for (const auto& dataset : datasets_) {
      peers_.push_back(std::make_shared<OwnersHere>(owner_of));
      dataset->set_peers(peers_.back());
    }
  }
  std::size_t size() const { return datasets_.size(); }
  const Dataset& dataset(std::size_t machine) const { return *datasets_[machine]; }
  const OwnersHere& peers(std::size_t machine) const { return *peers_[machine]; }

 private:
  std::vector<std::unique_ptr<Dataset>> datasets_;
  std::vector<std::unique_ptr<PartitionOwner>> owners_;
  std::vector<std::shared_ptr<OwnersHere>> peers_;
};

}  // namespace hopfeed::testing
