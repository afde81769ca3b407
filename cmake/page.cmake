# Makes the page: the parts in serve/page become one HTML file, and that a C array.
#   cmake -DPARTS=FOLDER -DOUT=FILE.c -P page.cmake
file(READ ${PARTS}/page.html html)
file(GLOB scripts ${PARTS}/*.js)
list(SORT scripts)
set(script "")
foreach(part ${scripts})
  file(READ ${part} text)
  string(APPEND script "${text}")
endforeach()
file(READ ${PARTS}/page.css style)
string(REPLACE "/* PAGE-STYLE */" "${style}" html "${html}")
string(REPLACE "/* PAGE-SCRIPT */" "${script}" html "${html}")
file(WRITE ${OUT}.html "${html}")
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"serve/page_asset.h\"\nconst unsigned char page_asset[] = {\n${bytes}};\n"
  "const size_t page_asset_bytes = sizeof page_asset;\n")
