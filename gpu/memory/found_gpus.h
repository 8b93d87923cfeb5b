// FoundGpus is what CUDA says of this machine's GPUs, and what that means for whoever wants to use one: in
// plain text and without CUDA, so that each refusal has a test.
#pragma once
#include <cstddef>
#include <string>

namespace hopfeed::gpu {

/// Versions are CUDA's: 13000 is 13.0.
struct FoundGpus {
  int runtime = 0;  // the version that hopfeed was built with
  int driver = 0;   // the latest that the driver knows; 0: there is no driver
  int devices = 0;
  std::string refusal;  // what CUDA said where it would not count them, but that there is none
};

/// Returns "" where the GPU of that number can be used; else one line: why not, and what to do.
std::string why_unusable(const FoundGpus& found, int device);

struct UsableGpu {
  int device = 0;
  std::string name;
  std::size_t memory = 0;  // bytes, free or not
};

}  // namespace hopfeed::gpu
