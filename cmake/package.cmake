# The Debian package, made by cpack of what is installed (`make deb`).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME aorta)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The AORTA authors <aorta@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "finds why GPU communication does not overlap with compute")
set(CPACK_PACKAGE_DESCRIPTION
    "Records and analyses what GPUs do in training, says what limits a step and
what removing it gains, trains synthetic models with FSDP2 or DDP, and
measures hardware queues, on CUDA, ROCm and CPUs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "gnuplot-nox, libarchive13 | libarchive13t64")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Files that Debian's policy asks for (chapter 12).
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(READ ${CMAKE_SOURCE_DIR}/LICENSE copyright)
foreach(part echarts zrender tslib)
  file(GLOB license ${CMAKE_SOURCE_DIR}/web/node_modules/${part}/LICENSE* ${CMAKE_BINARY_DIR}/web/node_modules/${part}/LICENSE*)
  if(license)
    list(GET license 0 license)
    file(READ ${license} text)
    string(APPEND copyright "\n----\n\nThe page of results contains ${part}, with this license:\n\n${text}")
  endif()
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/copyright "${copyright}")
file(WRITE ${CMAKE_BINARY_DIR}/changelog
     "aorta (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * Built from source; git has what changed.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
find_program(GZIP gzip)
if(GZIP)
  execute_process(COMMAND ${GZIP} -9nf ${CMAKE_BINARY_DIR}/changelog)
  install(FILES ${CMAKE_BINARY_DIR}/copyright ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
include(CPack)
