// See elf_file.h. The layout is that of the System V ABI, in <elf.h>.
#include "core/base/elf_file.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

/// `count` entries at `offset`; false where they are not all in the file.
template <class T>
bool read_table(std::ifstream& in, std::uint64_t size, std::uint64_t offset, std::size_t count,
                std::vector<T>& table) {
  table.resize(count);
  if (offset > size || count * sizeof(T) > size - offset) return false;
  in.seekg(static_cast<std::streamoff>(offset));
  return count == 0 ||
         !in.read(reinterpret_cast<char*>(table.data()), static_cast<std::streamsize>(count * sizeof(T)))
              .fail();
}

bool within(std::uint64_t size, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= size && bytes <= size - offset;
}

}  // namespace

void require_shared_library(const std::filesystem::path& file, const char* what) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ErrorCode::kIo, fmt::format("{} {} cannot be read", what, file.string()));
  const std::uint64_t size = std::filesystem::file_size(file);
  Elf64_Ehdr header{};
  in.read(reinterpret_cast<char*>(&header), sizeof(header));
  const bool is_elf = in.gcount() >= static_cast<std::streamsize>(SELFMAG) &&
                      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  require_valid(is_elf, fmt::format("{} {} does not load: it is no shared library", what, file.string()));
  const auto cut = [&] {
    throw Error(ErrorCode::kInvalid, fmt::format("{} {} does not load: it was cut short or is damaged ({} "
                                                 "bytes are there); copy or build it again",
                                                 what, file.string(), size));
  };
  if (in.fail()) cut();
  require_valid(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
                    header.e_machine == EM_X86_64 && header.e_type == ET_DYN,
                fmt::format("{} {} does not load: it is no shared library for x86-64", what, file.string()));
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      !read_table(in, size, header.e_phoff, header.e_phnum, segments))
    cut();
  for (const Elf64_Phdr& segment : segments)
    if (!within(size, segment.p_offset, segment.p_filesz)) cut();
  if (header.e_shnum == 0) return;  // stripped of them
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !read_table(in, size, header.e_shoff, header.e_shnum, sections))
    cut();
  for (const Elf64_Shdr& section : sections)
    if (section.sh_type != SHT_NOBITS && !within(size, section.sh_offset, section.sh_size)) cut();
}

}  // namespace hopfeed
