// See block_file.h. An .npz file is a zip archive of .npy files, stored without compression as numpy.savez does; libzip
// writes it (zip64 included) into a temporary file and renames, as store_raw does for plain blocks.
#include "core/block_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/npy.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

void store_raw(const BatchView& batch, const fs::path& path) {
  const std::string temporary = path.string() + ".tmp-" + std::to_string(::getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (!file) throw_errno("cannot create " + temporary, errno);
  const bool written =
      std::fwrite(batch.bytes().data(), 1, batch.bytes().size(), file) == batch.bytes().size() &&
      std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0;
  const int error = errno;
  std::fclose(file);
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int cause = written ? errno : error;
    std::remove(temporary.c_str());
    throw_errno("cannot write " + path.string(), cause);
  }
}

// "x" in a batch of one node and one edge type; "node1.x", "edge0.edge_index" where there are several.
std::string entry_name(const BatchView& batch, const ArrayView& array) {
  const bool single = batch.header().num_node_types == 1 && batch.header().num_edge_types <= 1;
  const char* store = array.store == Store::kEdge ? "edge" : "node";
  const std::string prefix =
      single || array.store == Store::kBatch ? "" : store + std::to_string(array.type_number) + ".";
  return prefix + std::string(array.name) + ".npy";
}

class Archive {
 public:
  explicit Archive(const fs::path& path) : path_(path) {
    int code = 0;
    archive_ = ::zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (archive_) return;
    zip_error_t error;
    ::zip_error_init_with_code(&error, code);
    const std::string text = ::zip_error_strerror(&error);
    ::zip_error_fini(&error);
    throw Error(ErrorCode::kIo, "cannot create " + path.string() + ": " + text);
  }
  ~Archive() {
    if (archive_) ::zip_discard(archive_);
  }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  // `head` and `body` must stay until finish().
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
  void finish() {
    if (::zip_close(archive_) != 0) fail();
    archive_ = nullptr;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kIo, "cannot write " + path_.string() + ": " + ::zip_strerror(archive_));
  }
  fs::path path_;
  zip_t* archive_ = nullptr;
};

void store_npz(const BatchView& batch, const fs::path& path) {
  std::vector<std::string> heads;
  for (int i = 0; i < batch.num_arrays(); ++i) {
    const ArrayView array = batch.array(i);
    heads.push_back(npy_head(npy_descr(array.type), {array.shape.begin(), array.shape.end()}));
  }
  Archive archive(path);
  for (int i = 0; i < batch.num_arrays(); ++i) {
    const ArrayView array = batch.array(i);
    archive.add(entry_name(batch, array), heads[static_cast<std::size_t>(i)], array.bytes);
  }
  archive.finish();
}

}  // namespace

void store_block(const BatchView& batch, const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    throw Error(ErrorCode::kInvalid, path.string() + " is no regular file; name a file to store the batch in");
  }
  if (path.extension() == ".npz")
    store_npz(batch, path);
  else
    store_raw(batch, path);
}

}  // namespace hopfeed
