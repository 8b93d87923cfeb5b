// Finds memory near a GPU, on machines with several memory nodes: reads over PCIe that cross from one
// processor to the other are slower.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace hopfeed::gpu {

/// Returns the memory node that the device of this PCI address ("0000:41:00.0", as CUDA or the kernel write
/// it) belongs to; nothing where the machine has one node, or does not say. `sys`: where sysfs is.
std::optional<int> memory_node_of(const std::string& pci_address, const std::filesystem::path& sys = "/sys");

/// Has pages of this mapping taken from the node as long as it has any, and from others then. It is a wish:
/// where the system refuses, pages come from anywhere.
void prefer_memory_node(void* at, std::size_t bytes, int node);

}  // namespace hopfeed::gpu
