# hopfeed_target(NAME): warnings as errors and the charter's flags for our own code.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Precompiled headers, several build folders and several clones share one cache only with these.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_NOHASHDIR=1
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
endif()

# One flag for libraries, programs and tests, where CMake would give -fPIC to some and -fPIE to others: so all of them
# can share a precompiled header, and the libraries fit into modules that are loaded.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC>)

function(hopfeed_target name)
  set(cxx_flags -Wall -Wextra -Werror -march=${HOPFEED_MARCH}
    -Wno-missing-field-initializers   # options structs are initialised by name, the rest has defaults
    -ffp-contract=off)   # the same sums on every processor
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND cxx_flags
      -fpch-preprocess   # ccache knows precompiled headers only with it
      -Wno-restrict)     # g++ 12 reports std::string concatenation wrongly (GCC bug 105651)
  endif()
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>" "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>")
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/hopfeed>)
endfunction()

if(HOPFEED_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(HOPFEED_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(HOPFEED_SANITIZE STREQUAL "fuzzer")   # clang's libFuzzer, for the targets of tests/fuzz
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(NOT HOPFEED_SANITIZE STREQUAL "")
  message(FATAL_ERROR "HOPFEED_SANITIZE is '${HOPFEED_SANITIZE}'; use address, thread, fuzzer or leave it empty")
endif()
