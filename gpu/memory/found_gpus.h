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

/// AskedGpu is what CUDA says of the one that is to be used. Capabilities are 90 for 9.0.
struct AskedGpu {
  std::string name;
  int capability = 0;
  int oldest = 0;     // capability that this hopfeed has kernels for
  bool shut = false;  // its compute mode lets no process use it
};

/// Returns "" where there is a GPU of that number; else one line: why it cannot be used, and what to do.
std::string why_unusable(const FoundGpus& found, int device);
/// Returns "" where it can be used, else one such line.
std::string why_unusable(const AskedGpu& gpu, int device);
/// Returns what is said where CUDA has no context to give since one process at a time may have one.
std::string taken_by_another();

struct UsableGpu {
  int device = 0;
  std::string name;
  std::size_t memory = 0;  // bytes, free or not
};

}  // namespace hopfeed::gpu
