// See peer_addresses.h.
#include "trainer/peer_addresses.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::string_view kByStore = "c10d=";
constexpr std::size_t kMostBytes = 256;

}  // namespace

void share_peers(World& world, PeerOptions& options) {
  const bool mine = options.peers.size() == 1 && options.peers.front().starts_with(kByStore);
  std::array<char, kMostBytes> text{};
  if (mine) {
    const std::string address = options.peers.front().substr(kByStore.size());
    require_valid(
        !address.empty() && address.size() < kMostBytes,
        "--peers " + options.peers.front() + ": after c10d= comes HOST:PORT of this machine's server");
    std::memcpy(text.data(), address.data(), address.size());
  }
  const torch::Tensor all =
      world.gather(torch::from_blob(text.data(), {static_cast<std::int64_t>(kMostBytes)}, torch::kUInt8));
  std::vector<std::string> addresses;
  std::int64_t told = 0;
  for (std::int64_t rank = 0; rank < world.size(); ++rank) {
    const std::string address =
        static_cast<const char*>(all.const_data_ptr()) + rank * static_cast<std::int64_t>(kMostBytes);
    told += !address.empty();
    if (!address.empty() && std::ranges::find(addresses, address) == addresses.end())
      addresses.push_back(address);
  }
  if (told == 0) return;
  require_valid(told == world.size(),
                "some trainers say --peers c10d=HOST:PORT and others do not; say it on every machine");
  options.peers = std::move(addresses);
}

}  // namespace hopfeed
