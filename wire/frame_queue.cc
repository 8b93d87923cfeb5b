// See frame_queue.h.
#include "wire/frame_queue.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/crc32c.h"

namespace hopfeed::wire {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kCopiedBlock =
    16 << 10;  // a block up to this size is copied: cheaper than a piece of its own
constexpr std::size_t kJoined = 128 << 10;  // small frames are joined up to this size
constexpr std::size_t kSummedAtOnce = 512
                                      << 10;  // stays in the second cache until it is sent; less costs calls
constexpr std::size_t kGathered = 1 << 20;    // handed out at once, where nothing is summed
constexpr std::size_t kMostBuffers = 64;      // of one system call, as Asio gathers them

constexpr std::size_t kKeptBuffers = 8;  // 1 MiB for each thread

/// Memory of frames that have left this thread's connections, for those to come.
std::vector<Bytes>& kept_buffers() {
  thread_local std::vector<Bytes> kept;
  return kept;
}

void keep(Bytes buffer) {
  if (buffer.capacity() < kJoined / 4 || buffer.capacity() > 2 * kJoined ||
      kept_buffers().size() >= kKeptBuffers)
    return;
  buffer.clear();
  kept_buffers().push_back(std::move(buffer));
}

void append(Bytes& to, std::span<const std::byte> more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

Bytes& FrameQueue::joined(std::size_t more) {
  const bool fits =
      !pieces_.empty() && pieces_.back().is_own() && pieces_.back().own.size() + more <= kJoined;
  if (!fits) {
    // One that waits alone is small, and most do; those behind it come in numbers.
    const bool alone = pieces_.empty();
    pieces_.emplace_back();
    Bytes& own = pieces_.back().own;
    if (kept_buffers().empty()) {
      own.reserve(std::max(more, alone ? std::size_t{512} : kJoined / 4));
    } else {
      own = std::move(kept_buffers().back());
      kept_buffers().pop_back();
    }
  }
  bytes_ += more;
  return pieces_.back().own;
}

std::uint32_t FrameQueue::add_header(FrameType type, std::uint64_t request, std::uint64_t payload) {
  std::array<std::byte, kFrameHeaderBytes> header;
  write_header({.type = type, .request = request, .bytes = payload}, header);
  append(joined(kFrameHeaderBytes), header);
  return has_tail(type) ? crc32c(0, header) : 0;
}

void FrameQueue::add_piece(Piece piece) {
  bytes_ += piece.size();
  if (!piece.block.empty()) block_bytes_ += piece.size();
  pieces_.push_back(std::move(piece));
}

void FrameQueue::add_raw(std::span<const std::byte> bytes) {
  if (!bytes.empty()) append(joined(bytes.size()), bytes);
}

void FrameQueue::add(FrameType type, std::uint64_t request, std::span<const std::byte> payload) {
  if (payload.size() > kJoined / 2) {
    const auto copy = std::make_shared<const Bytes>(payload.begin(), payload.end());
    return add(type, request, *copy, copy);
  }
  const std::uint32_t crc = add_header(type, request, payload.size());
  if (!payload.empty()) append(joined(payload.size()), payload);
  if (has_tail(type)) add_sum(crc32c(crc, payload));
}

void FrameQueue::add_sum(std::uint32_t crc) {
  append(joined(kChecksumBytes), std::as_bytes(std::span(&crc, 1)));
}

void FrameQueue::add(FrameType type, std::uint64_t request, std::span<const std::byte> payload,
                     std::shared_ptr<const void> owner) {
  const std::uint32_t crc = add_header(type, request, payload.size());
  if (payload.empty() && has_tail(type)) add_sum(crc);
  if (payload.empty()) return;
  Piece piece;
  piece.owner = std::move(owner);
  piece.kept = payload;
  piece.has_tail = has_tail(type);
  piece.crc = crc;
  add_piece(std::move(piece));
}

void FrameQueue::add_block(std::uint64_t request, const BlockHead& head, std::span<const std::byte> block,
                           Done done) {
  const std::size_t own_sum = sums_ == Sums::kBlocks ? kChecksumBytes : 0;  // is part of the payload
  std::uint32_t crc = add_header(FrameType::kBlock, request, kBlockHeadBytes + block.size() + own_sum);
  const Bytes head_bytes = to_bytes(head);
  append(joined(head_bytes.size()), head_bytes);
  if (sums_ == Sums::kFrames) crc = crc32c(crc, head_bytes);
  if (block.size() > kCopiedBlock) {
    Piece piece;
    piece.block = block;
    piece.has_tail = sums_ != Sums::kNone;
    piece.crc = crc;
    piece.dones.push_back(std::move(done));
    add_piece(std::move(piece));
    return;
  }
  append(joined(block.size()), block);
  if (sums_ != Sums::kNone) add_sum(crc32c(crc, block));
  pieces_.back().dones.push_back(std::move(done));
}

/// Appends what can be sent of the piece. False: the rest of it comes later, and so does what follows it.
bool FrameQueue::offer(Piece& piece) {
  const auto put = [&](std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    buffers_.emplace_back(bytes.data(), bytes.size());
    offered_ += bytes.size();
  };
  const std::span<const std::byte> body = piece.body();
  if (piece.has_tail && piece.summed < body.size() && piece.summed < piece.sent + kSummedAtOnce / 2) {
    const std::size_t chunk = std::min(kSummedAtOnce, body.size() - piece.summed);
    piece.crc = crc32c(piece.crc, body.subspan(piece.summed, chunk));
    piece.summed += chunk;
    std::memcpy(piece.tail.data(), &piece.crc, sizeof piece.crc);
  }
  const std::size_t until = piece.has_tail ? piece.summed : body.size();
  if (piece.sent < until) put(body.subspan(piece.sent, std::min(until - piece.sent, kGathered)));
  if (until < body.size() || offered_ >= kGathered) return false;
  if (piece.has_tail) {
    const std::size_t of_tail = piece.sent > body.size() ? piece.sent - body.size() : 0;
    put(std::span<const std::byte>(piece.tail).subspan(of_tail));
  }
  return true;
}

std::span<const asio::const_buffer> FrameQueue::next() {
  buffers_.clear();
  offered_ = 0;
  for (Piece& piece : pieces_)
    if (!offer(piece) || buffers_.size() + 2 > kMostBuffers || offered_ >= kSummedAtOnce) break;
  return buffers_;
}

void FrameQueue::sent(std::size_t bytes, std::vector<Done>& left) {
  bytes_ -= bytes;
  while (bytes > 0) {
    Piece& piece = pieces_.front();
    const std::size_t of_this = std::min(bytes, piece.size() - piece.sent);
    piece.sent += of_this;
    if (!piece.block.empty()) block_bytes_ -= of_this;
    bytes -= of_this;
    if (piece.sent < piece.size()) break;
    for (Done& done : piece.dones) left.push_back(std::move(done));
    keep(std::move(piece.own));
    pieces_.pop_front();
  }
}

void FrameQueue::drop(std::vector<Done>& dropped) {
  for (Piece& piece : pieces_)
    for (Done& done : piece.dones) dropped.push_back(std::move(done));
  pieces_.clear();
  bytes_ = block_bytes_ = 0;
}

}  // namespace hopfeed::wire
