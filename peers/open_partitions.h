// Opens a dataset as a machine has it: as a whole, or some partitions with whoever answers for the others.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/base/huge_pages.h"
#include "core/dataset/dataset.h"
#include "peers/peer_options.h"

namespace hopfeed {

/// PeersAt says whether to wait until all partitions have a server. Who only goes on with what others have
/// checked does not: its questions wait by themselves.
enum class PeersAt { kKnown, kSoon };

/// Opens the dataset. `while_waiting` is called ten times a second by whoever waits for another machine; what
/// it throws leaves the wait. Throws what Dataset and PeerNetwork throw.
std::unique_ptr<Dataset> open_partitions(const std::filesystem::path& folder, const PeerOptions& options,
                                         PeersAt when, HugePages huge_pages = HugePages::kAuto,
                                         std::function<void()> while_waiting = {});

/// Returns the token of a file, or of HOPFEED_TOKEN where `file` is empty; empty where neither is. Throws
/// kInvalid, kNotFound or kIo naming the file.
std::string peer_token(const std::string& file);

}  // namespace hopfeed
