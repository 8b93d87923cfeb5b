// See near_gpu.h.
#include "gpu/memory/near_gpu.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <fstream>

namespace hopfeed::gpu {
namespace {

constexpr int kMaxNodes = 1024;  // what the kernel is built for at most

std::string first_word(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

}  // namespace

std::optional<int> memory_node_of(const std::string& pci_address, const std::filesystem::path& sys) {
  // "0", "0-1", "0,2": one node is one number.
  const std::string online = first_word(sys / "devices/system/node/online");
  if (online.find_first_of(",-") == std::string::npos) return {};
  std::string address = pci_address;
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string node = first_word(sys / "bus/pci/devices" / address / "numa_node");
  if (node.empty() || node.size() > 4 ||
      !std::ranges::all_of(node, [](char c) { return c >= '0' && c <= '9'; }))
    return {};  // the kernel says -1 where it does not know
  const int number = std::stoi(node);
  return number < kMaxNodes ? std::optional<int>(number) : std::nullopt;
}

void prefer_memory_node(void* at, std::size_t bytes, int node) {
  constexpr int kBits = CHAR_BIT * sizeof(unsigned long);
  std::array<unsigned long, kMaxNodes / kBits> mask{};
  mask[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, mask.data(), kMaxNodes + 1, 0);
}

}  // namespace hopfeed::gpu
