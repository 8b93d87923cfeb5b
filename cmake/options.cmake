# hopfeed_target(NAME): warnings as errors and the charter's flags for our own code.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Precompiled headers, several build folders and several clones share one cache only with these.
  set(compiler_launcher ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_NOHASHDIR=1
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${compiler_launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${compiler_launcher})
endif()

# One flag for libraries, programs and tests, where CMake would give -fPIC to some and -fPIE to others: so all of them
# can share a precompiled header, and the libraries fit into modules that are loaded.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC>)

# Units. Most of what a file costs to compile are the headers that it shares with its neighbours, so all presets but dev
# compile several files of a target as one unit (CMAKE_UNITY_BUILD). Names in the anonymous namespaces of one target
# therefore differ. dev compiles file by file: it is quick after a change, and it shows an include that is missing.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

# hopfeed_units(NAME [BY_FOLDER] [FILES n] [ALONE file...]): how many files a unit has (8), or whether each folder is one.
# ALONE: files with much code of their own, which would make one long unit while the other core waits.
function(hopfeed_units name)
  cmake_parse_arguments(UNITS "BY_FOLDER" "FILES" "ALONE" ${ARGN})
  if(UNITS_FILES)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE ${UNITS_FILES})
  endif()
  if(UNITS_ALONE)
    set_source_files_properties(${UNITS_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(UNITS_BY_FOLDER)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${name} SOURCES)
    foreach(source ${sources})
      cmake_path(GET source PARENT_PATH folder)
      string(REPLACE "/" "_" folder "${folder}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
    endforeach()
  endif()
endfunction()

function(hopfeed_target name)
  set(cxx_flags -Wall -Wextra -Werror -march=${HOPFEED_MARCH}
    -Wno-missing-field-initializers   # options structs are initialised by name, the rest has defaults
    -ffp-contract=off)   # the same sums on every processor
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND cxx_flags
      -fpch-preprocess   # ccache knows precompiled headers only with it
      -Wno-restrict -Wno-stringop-overflow)   # g++ 12 reports std::string concatenation and assignment wrongly (GCC bug 105651)
    if(CMAKE_UNITY_BUILD)
      list(APPEND cxx_flags -Wno-subobject-linkage)   # it takes the files of a unit for headers
    endif()
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
