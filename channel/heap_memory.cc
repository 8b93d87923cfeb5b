// ChannelMemory for the threads of one process. Memory is there from the start; reserve and punch only keep
// the contract's promises about contents and count bytes, page by page.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "channel/memory.h"

namespace hopfeed {
namespace {

class HeapMemory final : public ChannelMemory {
 public:
  explicit HeapMemory(std::size_t size) : reserved_(round_up(size, kPageBytes) / kPageBytes, 0) {
    size_ = reserved_.size() * kPageBytes;
    data_ = static_cast<std::byte*>(::operator new (size_, std::align_val_t{kPageBytes}));
    std::memset(data_, 0, size_);
  }
  ~HeapMemory() override { ::operator delete (data_, std::align_val_t{kPageBytes}); }

  void reserve(std::size_t offset, std::size_t bytes) override { mark(offset, bytes, 1); }
  void punch(std::size_t offset, std::size_t bytes) override {
    std::memset(data_ + offset, 0, bytes);
    mark(offset, bytes, 0);
  }
  std::size_t allocated() const override {
    return static_cast<std::size_t>(std::count(reserved_.begin(), reserved_.end(), 1)) * kPageBytes;
  }

 private:
  void mark(std::size_t offset, std::size_t bytes, char value) {
    std::fill(
        reserved_.begin() + static_cast<std::ptrdiff_t>(offset / kPageBytes),
        reserved_.begin() + static_cast<std::ptrdiff_t>(round_up(offset + bytes, kPageBytes) / kPageBytes),
        value);
  }
  std::vector<char> reserved_;  // by page; only the loader's thread touches it
};

}  // namespace

std::unique_ptr<ChannelMemory> make_heap_memory(std::size_t size) {
  return std::make_unique<HeapMemory>(size);
}

}  // namespace hopfeed
