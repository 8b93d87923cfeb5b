// RecycledBytes are for what comes and goes all the time and is large: new ones are not zeroed, and their
// memory is used again in place of being given back, which would cost a page fault for each 4 KiB of the
// next.
#pragma once
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace hopfeed {

/// Returns memory of any size at a multiple of 64. Any thread. Throws std::bad_alloc.
void* take_recycled(std::size_t bytes);
/// Gives back what take_recycled(bytes) gave. Up to kMaxRecycledBytes are kept for others, in all.
void give_recycled(void* memory, std::size_t bytes) noexcept;
inline constexpr std::size_t kMaxRecycledBytes = std::size_t{256} << 20;

template <class T>
struct RecyclingAllocator {
  using value_type = T;
  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) {
  }  // NOLINT(google-explicit-constructor): as allocators are
  T* allocate(std::size_t count) { return static_cast<T*>(take_recycled(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { give_recycled(memory, count * sizeof(T)); }
  /// Constructs an element; without a value it writes nothing.
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) > 0)
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
    else if constexpr (!std::is_trivially_default_constructible_v<U>)
      ::new (static_cast<void*>(at)) U();
  }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) { return true; }
};

using RecycledBytes = std::vector<std::byte, RecyclingAllocator<std::byte>>;

}  // namespace hopfeed
