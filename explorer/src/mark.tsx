/** The sign of the product: rows of one house. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="4" />
      <path d="M3.5 5h9M3.5 8h9M3.5 11h5.5" />
    </svg>
  );
}
