// See meta_file.h.
#include "core/dataset/meta_file.h"

#include <cerrno>
#include <system_error>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/mapped_file.h"

namespace hopfeed {

std::filesystem::path meta_file_of(const std::filesystem::path& folder) { return folder / "meta.json"; }

std::string read_meta_text(const std::filesystem::path& folder) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(folder, error);
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    throw_errno("cannot open the dataset folder " + folder.string(), error.value());
  if (!is_folder && std::filesystem::exists(folder, error))
    throw Error(ErrorCode::kInvalid,
                folder.string() + " is a file; name the dataset's folder, which has the meta.json in it");
  if (!is_folder) throw Error(ErrorCode::kNotFound, "no dataset folder " + folder.string());
  require_utf8(std::filesystem::absolute(folder), "the dataset folder");
  const bool has_meta = std::filesystem::exists(meta_file_of(folder), error);
  if (error && error.value() != ENOENT)
    throw_errno("cannot open " + meta_file_of(folder).string(), error.value());
  if (!has_meta)
    throw Error(ErrorCode::kNotFound,
                folder.string() +
                    " has no meta.json, so it is no hopfeed dataset; make one with hopfeed-partition import");
  return read_text_file(meta_file_of(folder), kMaxMetaBytes);
}

DatasetMeta read_meta(const std::filesystem::path& folder) {
  return parse_meta(read_meta_text(folder), meta_file_of(folder).string());
}

}  // namespace hopfeed
