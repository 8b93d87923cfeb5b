// See block_file.h. An .npz file is a zip archive of .npy files, stored without compression as numpy.savez
// does; libzip makes it, zip64 included.
#include "core/batch/block_file.h"

#include <zip.h>

#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/dataset/npy.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

// "x" in a batch of one node and one edge type; "node1.x", "edge0.edge_index" where there are several, and
// "node0.time" and "edge0.time" where both are called so.
std::string entry_name(const BatchView& batch, const ArrayView& array) {
  bool plain = batch.header().num_node_types == 1 && batch.header().num_edge_types <= 1;
  for (int i = 0; plain && i < batch.num_arrays(); ++i)
    plain = batch.array(i).name != array.name || batch.array(i).store == array.store;
  const char* store = array.store == Store::kEdge ? "edge" : "node";
  const std::string prefix =
      plain || array.store == Store::kBatch ? "" : store + std::to_string(array.type_number) + ".";
  return prefix + std::string(array.name) + ".npy";
}

/// Made in memory, since libzip's own temporary file would stay behind a killed process.
class Archive {
 public:
  Archive() {
    zip_error_t error;
    ::zip_error_init(&error);
    bytes_ = ::zip_source_buffer_create(nullptr, 0, 0, &error);
    archive_ = bytes_ ? ::zip_open_from_source(bytes_, ZIP_TRUNCATE, &error) : nullptr;
    if (archive_) {
      ::zip_source_keep(bytes_);
      return;
    }
    ::zip_source_free(bytes_);
    const std::string text = ::zip_error_strerror(&error);
    ::zip_error_fini(&error);
    throw Error(ErrorCode::kNoSpace, "cannot make a zip archive in memory: " + text);
  }
  ~Archive() {
    if (archive_) ::zip_discard(archive_);
    ::zip_source_free(bytes_);
  }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  // `head` and `body` must stay until write_to().
  void add(const std::string& name, const std::string& head, std::span<const std::byte> body) {
    const zip_buffer_fragment_t fragments[2] = {
        {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(head.data())), head.size()},
        {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(body.data())), body.size()}};
    zip_source_t* source = ::zip_source_buffer_fragment(archive_, fragments, 2, /*freep=*/0);
    if (!source) fail();
    const zip_int64_t index = ::zip_file_add(archive_, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      ::zip_source_free(source);
      fail();
    }
    if (::zip_set_file_compression(archive_, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0) != 0) fail();
  }
  void write_to(AtomicFile& file) {
    if (::zip_close(archive_) != 0) fail();
    archive_ = nullptr;
    std::vector<std::byte> buffer(std::size_t{1} << 20);
    if (::zip_source_open(bytes_) != 0) fail_reading();
    zip_int64_t got;
    while ((got = ::zip_source_read(bytes_, buffer.data(), buffer.size())) > 0)
      file.write(std::span(buffer).first(static_cast<std::size_t>(got)));
    if (got < 0) fail_reading();
    ::zip_source_close(bytes_);
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kIo, std::string("cannot make a zip archive: ") + ::zip_strerror(archive_));
  }
  [[noreturn]] void fail_reading() const {
    throw Error(ErrorCode::kIo, std::string("cannot make a zip archive: ") +
                                    ::zip_error_strerror(::zip_source_error(bytes_)));
  }
  zip_source_t* bytes_ = nullptr;
  zip_t* archive_ = nullptr;
};

void store_npz(const BatchView& batch, AtomicFile& file) {
  std::vector<std::string> heads;
  for (int i = 0; i < batch.num_arrays(); ++i) {
    const ArrayView array = batch.array(i);
    std::vector<std::int64_t> shape(array.shape.begin(), array.shape.end());
    if (has_scale(array.type)) shape = {array.shape[0], quantised_rows(array).stride_bytes};  // rows of bytes
    heads.push_back(npy_head(npy_descr(array.type), shape));
  }
  Archive archive;
  for (int i = 0; i < batch.num_arrays(); ++i) {
    const ArrayView array = batch.array(i);
    archive.add(entry_name(batch, array), heads[static_cast<std::size_t>(i)], array.bytes);
  }
  archive.write_to(file);
}

}  // namespace

void store_block(const BatchView& batch, const fs::path& path) {
  AtomicFile file(path);
  if (path.extension() == ".npz")
    store_npz(batch, file);
  else
    file.write(batch.bytes());
  file.commit();
}

}  // namespace hopfeed
