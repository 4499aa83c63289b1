"""One page that shows how evaluation runs went: self-contained HTML, made from run folders."""
