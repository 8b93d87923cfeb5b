// See block_check.h.
#include "server_client_mode/client/block_check.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/batch/batch_view.h"
#include "core/batch/packed_block.h"

namespace hopfeed {

BlockCheck::BlockCheck(const BatchSpec& spec, std::shared_ptr<const HeldRows> held)
    : held_(std::move(held)), options_hash_(spec.batch.hash()), seed_(spec.seed) {
  const std::string& hex = spec.fingerprint;  // 32 digits, checked by parse_meta
  std::from_chars(hex.data(), hex.data() + 16, fingerprint_[0], 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, fingerprint_[1], 16);
}

void BlockCheck::check(std::span<const std::byte> block, const BatchKey& asked,
                       const std::string& peer) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("{} has sent a wrong block for the batch of {} seeds from position {} of epoch {}: "
                    "{}; see that server",
                    peer, asked.count, asked.first, asked.epoch, what));
  };
  BatchView view;
  try {
    const bool packed = held_ && is_packed(block);
    view = BatchView(block, packed ? BatchView::Form::kPacked : BatchView::Form::kWhole);
    if (packed) held_->check(view);
  } catch (const Error& error) {
    refuse(error.message());
  }
  const BlockHeader& header = view.header();
  if (view.bytes().size() != block.size())
    refuse(fmt::format("it has {} bytes, and {} came", view.bytes().size(), block.size()));
  if (header.fingerprint[0] != fingerprint_[0] || header.fingerprint[1] != fingerprint_[1])
    refuse("it is of another dataset");
  if (header.options_hash != options_hash_) refuse("it is of other options");
  if (header.key != asked)
    refuse(fmt::format("it is that of {} seeds from position {} of epoch {} with seed {}", header.key.count,
                       header.key.first, header.key.epoch, header.key.seed));
}

}  // namespace hopfeed
