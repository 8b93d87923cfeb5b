// A BatchView is a validated, read-only view of a batch block. It owns nothing: the bytes stay where they are
// (a slot, a buffer, a file).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/base/quantised_rows.h"
#include "core/batch/batch_layout.h"

namespace hopfeed {

struct ArrayView {
  std::string_view name;
  ElementType type = ElementType::kUint8;
  Store store = Store::kBatch;
  int type_number = 0;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
  template <class T>
  std::span<const T> as() const {
    if (type != element_type_of<T>)
      throw Error(ErrorCode::kInvalid, "array '" + std::string(name) + "' holds " + to_string(type));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Returns the rows of an array whose type has a scale, which is the only way to read them; throws kInvalid
/// for others.
QuantisedRows quantised_rows(const ArrayView& array);

class BatchView {
 public:
  /// A packed block (packed_block.h) is read with kPacked alone, so that nobody takes it for the batch.
  enum class Form { kWhole, kPacked };
  BatchView() = default;
  /// Checks magic, version, lengths, shapes, alignment, overlaps and names before anything is trusted; throws
  /// kCorrupt or kVersion. `bytes` must begin at a multiple of 64 and may be longer than the block (a slot).
  explicit BatchView(std::span<const std::byte> bytes, Form form = Form::kWhole);

  const BlockHeader& header() const { return *reinterpret_cast<const BlockHeader*>(bytes_.data()); }
  const BatchKey& key() const { return header().key; }
  std::span<const std::byte> bytes() const { return bytes_; }  // exactly the block
  int num_arrays() const { return static_cast<int>(header().num_arrays); }
  ArrayView array(int i) const;
  /// Returns the array, or a null view (empty name) where the batch has none such.
  ArrayView find(std::string_view name, Store store, int type_number = 0) const;
  bool has(std::string_view name, Store store, int type_number = 0) const {
    return !find(name, store, type_number).name.empty();
  }
  /// Finds an array as find() does, but throws kNotFound where it is not there.
  ArrayView get(std::string_view name, Store store, int type_number = 0) const;

  // These are the fields of a homogeneous batch (docs/batch.md).
  std::int64_t batch_size() const;  // distinct seeds; kCorrupt where the array is empty
  std::span<const std::int64_t> n_id() const { return get("n_id", Store::kNode).as<std::int64_t>(); }
  std::span<const std::int64_t> input_id() const { return get("input_id", Store::kNode).as<std::int64_t>(); }
  ArrayView edge_index() const { return get("edge_index", Store::kEdge); }  // int64 [2, E]
  std::span<const std::int64_t> num_sampled_nodes() const {
    return get("num_sampled_nodes", Store::kNode).as<std::int64_t>();
  }
  std::span<const std::int64_t> num_sampled_edges() const {
    return get("num_sampled_edges", Store::kEdge).as<std::int64_t>();
  }
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(n_id().size()); }
  std::int64_t num_edges() const;  // kCorrupt where edge_index has not two dimensions
  // These are sums over all node types, and over all edge types.
  std::int64_t total_nodes() const;
  std::int64_t total_edges() const;
  /// Returns the XXH3-64 of the whole block.
  std::uint64_t digest() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace hopfeed
