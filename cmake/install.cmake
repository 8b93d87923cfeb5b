# cmake --install BUILD --prefix DIR, and then in another project:
#
#   find_package(hopfeed REQUIRED)                           # or COMPONENTS trainer, where it was built with Torch
#   target_link_libraries(mine PRIVATE hopfeed::worker_mode) # or hopfeed::trainer, hopfeed::core, ...
#
# Headers, those of docs/headers.md, lie in DIR/include/hopfeed and are included as here ("worker_mode/loader.h"). A loader looks for hopfeed-worker
# beside its program, on PATH, or where HOPFEED_WORKER says.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hopfeed)
set(libraries core gpu cache state results channel wire peers stream worker_parts worker_mode client server import partition_tool)
set(programs hopfeed-worker hopfeed-server hopfeed-sample hopfeed-top hopfeed-partition)
set(header_folders core gpu cache state results channel wire peers stream worker_mode server_client_mode partition_tool)
if(HOPFEED_TORCH)
  list(APPEND libraries torch trainer)
  list(APPEND header_folders trainer)
endif()
set(targets)
foreach(library ${libraries})
  list(APPEND targets hopfeed_${library})
  set_target_properties(hopfeed_${library} PROPERTIES EXPORT_NAME ${library})
endforeach()
install(TARGETS ${targets} EXPORT hopfeed)
install(TARGETS ${programs})

# public_headers(RESULT): those of the table in docs/headers.md and what they include, below the folders that are installed.
function(public_headers result)
  set(list ${PROJECT_SOURCE_DIR}/docs/headers.md)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} todo REGEX "^\\| `[a-z_/]+\\.h` ")
  list(TRANSFORM todo REPLACE "^\\| `([a-z_/]+\\.h)` .*" "\\1")
  list(JOIN header_folders "|" folders)
  list(FILTER todo INCLUDE REGEX "^(${folders})/")
  set(done)
  while(todo)
    list(POP_FRONT todo header)
    if(header IN_LIST done)
      continue()
    endif()
    list(APPEND done ${header})
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      message(FATAL_ERROR "docs/headers.md lists ${header}, and there is no such header")
    endif()
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND todo ${includes})
  endwhile()
  set(${result} ${done} PARENT_SCOPE)
endfunction()
public_headers(headers)
foreach(header ${headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hopfeed/${folder})
endforeach()
install(EXPORT hopfeed NAMESPACE hopfeed:: FILE hopfeedTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/hopfeedConfig.cmake.in ${CMAKE_BINARY_DIR}/hopfeedConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hopfeedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hopfeedConfig.cmake ${CMAKE_BINARY_DIR}/hopfeedConfigVersion.cmake
  DESTINATION ${package_folder})
