// A WorldConnection is what c10d connects the trainers of a World by. World holds one behind a pointer, so
// that c10d's headers stay out of world.h.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hopfeed {

struct WorldConnection {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

}  // namespace hopfeed
