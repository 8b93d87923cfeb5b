# cmake --install BUILD --prefix DIR, and then in another project:
#
#   find_package(hopfeed REQUIRED)                           # or COMPONENTS trainer, where it was built with Torch
#   target_link_libraries(mine PRIVATE hopfeed::worker_mode) # or hopfeed::trainer, hopfeed::core, ...
#
# Headers lie in DIR/include/hopfeed and are included as here ("worker_mode/loader.h"). A loader looks for hopfeed-worker
# beside its program, on PATH, or where HOPFEED_WORKER says.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hopfeed)
set(libraries core cache channel worker_parts worker_mode partition_tool)
set(programs hopfeed-worker hopfeed-sample hopfeed-top hopfeed-partition)
set(header_folders core cache channel worker_mode partition_tool)
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
foreach(folder ${header_folders})
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hopfeed FILES_MATCHING PATTERN "*.h"
    PATTERN program EXCLUDE)
endforeach()
install(EXPORT hopfeed NAMESPACE hopfeed:: FILE hopfeedTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/hopfeedConfig.cmake.in ${CMAKE_BINARY_DIR}/hopfeedConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hopfeedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hopfeedConfig.cmake ${CMAKE_BINARY_DIR}/hopfeedConfigVersion.cmake
  DESTINATION ${package_folder})
