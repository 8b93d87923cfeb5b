// Frames that wait to be sent, as a stream of bytes that is handed out piece by piece. Small frames are
// joined as they come; a block or a payload that is kept elsewhere is read where it lies, its crc32c chunk by
// chunk just before that chunk is sent, while it is in the cache.
#pragma once
#include <array>
#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "wire/frame.h"
#include "wire/messages.h"

namespace hopfeed::wire {

/// Called once: whether the block has left.
using Done = std::function<void(bool sent)>;

class FrameQueue {
 public:
  /// Sets what of the frames from now on is followed by its checksum.
  void set_sums(Sums sums) { sums_ = sums; }
  /// Copies the payload.
  void add(FrameType type, std::uint64_t request, std::span<const std::byte> payload);
  /// Keeps its share of the payload until it has left.
  void add(FrameType type, std::uint64_t request, std::span<const std::byte> payload,
           std::shared_ptr<const void> owner);
  void add_block(std::uint64_t request, const BlockHead& head, std::span<const std::byte> block, Done done);
  /// Bytes that are no frame.
  void add_raw(std::span<const std::byte> bytes);

  bool empty() const { return pieces_.empty(); }
  /// Bytes that wait, in all.
  std::size_t bytes() const { return bytes_; }
  /// Bytes that wait and belong to no block by reference.
  std::size_t frame_bytes() const { return bytes_ - block_bytes_; }
  /// What to send next, which is not empty where the queue is not. Valid until the next call.
  std::span<const boost::asio::const_buffer> next();
  /// So many bytes of next() have left. Who was waiting for them is appended to `left`.
  void sent(std::size_t bytes, std::vector<Done>& left);
  /// Empties it.
  void drop(std::vector<Done>& dropped);

 private:
  struct Piece {
    Bytes own;                          // frames that were joined, or
    std::shared_ptr<const void> owner;  // one whose payload is kept elsewhere, or
    std::span<const std::byte> kept;
    std::span<const std::byte> block;  // a block, and
    bool has_tail = false;             // a checksum behind it
    std::array<std::byte, kChecksumBytes> tail{};
    std::size_t sent = 0;
    std::size_t summed = 0;  // bytes of the body that crc holds,
    std::uint32_t crc = 0;   // behind what it began with
    std::vector<Done> dones;

    bool is_own() const { return !owner && block.empty(); }
    std::span<const std::byte> body() const { return is_own() ? own : owner ? kept : block; }
    std::size_t size() const { return body().size() + (has_tail ? kChecksumBytes : 0); }
  };

  Bytes& joined(std::size_t more);
  /// Returns its checksum.
  std::uint32_t add_header(FrameType type, std::uint64_t request, std::uint64_t payload);
  bool has_tail(FrameType type) const { return sums_ == Sums::kFrames && is_summed(type); }
  void add_sum(std::uint32_t crc);
  void add_piece(Piece piece);
  bool offer(Piece& piece);

  Sums sums_ = Sums::kNone;
  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0, block_bytes_ = 0;
  std::size_t offered_ = 0;
  std::vector<boost::asio::const_buffer> buffers_;
};

}  // namespace hopfeed::wire
